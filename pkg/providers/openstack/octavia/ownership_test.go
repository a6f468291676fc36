package octavia

import (
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// makeLB makes a load balancer by hand and waits for it.
func (x *lbTest) makeLB(opts loadbalancers.CreateOpts) *plan.LoadBalancer {
	x.t.Helper()
	ctx, o := testContext(x.t), x.op()
	if opts.VipSubnetID == "" {
		opts.VipSubnetID = x.lbs.cfg.LoadBalancer.SubnetID
	}
	made, err := loadbalancers.Create(ctx, o.octavia, opts).Extract()
	if err != nil {
		x.t.Fatal(err)
	}
	lb, err := o.waitActive(ctx, made.ID)
	if err != nil {
		x.t.Fatal(err)
	}
	return lb
}

func (x *lbTest) lb(id string) *plan.LoadBalancer {
	x.t.Helper()
	lb, err := x.op().get(testContext(x.t), id)
	if err != nil {
		x.t.Fatal(err)
	}
	return lb
}

// TestSecondClusterOfTheSameNameIsRefusedWhenTheFirstHasTakenOver: whatever its Service says (#3102).
func TestSecondClusterOfTheSameNameIsRefusedWhenTheFirstHasTakenOver(t *testing.T) {
	x, _ := recorded(t, "c-monitor-mixed", 0, "")
	x.ensure(x.spec)
	other := *x.spec // with all plan.Evidence
	other.Cluster.UID = "ffffffff-0000-4000-8000-000000000002"
	x.sim.ResetRequests()
	_, err := x.lbs.Ensure(testContext(t), &other)
	if cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), testCluster.UID) || !strings.Contains(err.Error(), other.Cluster.UID) {
		t.Errorf("the other cluster's Ensure: %v, want KindConflict naming both clusters", err)
	}
	if err := x.lbs.UpdateMembers(testContext(t), &other); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("the other cluster's UpdateMembers: %v, want KindConflict", err)
	}
	if err := x.lbs.Delete(testContext(t), &other); err != nil {
		t.Errorf("the other cluster's Delete: %v", err)
	}
	if n := x.sim.Mutations(); n != 0 {
		t.Errorf("the other cluster makes %d changing calls", n)
	}
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestComplaintUnanchoredFloatingIPPrefix: OCCM deletes floating IPs by the beginning of their
// description; ours are told by all of it and by what they are attached to.
func TestComplaintUnanchoredFloatingIPPrefix(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	o, ctx := x.op(), testContext(t)
	const own = "Floating IP for Kubernetes external service default/web from cluster kubernetes"
	foreign := x.makeLB(loadbalancers.CreateOpts{Name: "foreign"})
	for _, opts := range []floatingips.CreateOpts{
		{Description: own + "-2"}, {Description: own}, {Description: own, PortID: foreign.VIPPortID},
	} {
		opts.FloatingNetworkID = x.lbs.cfg.LoadBalancer.FloatingNetworkID
		if _, err := floatingips.Create(ctx, o.neutron, opts).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	x.delete(x.spec)
	if n := len(x.sim.Snapshot().FloatingIPs); n != 3 {
		t.Errorf("%d floating IPs are left, want the 3 foreign ones", n)
	}
	// Even where the load balancer is gone, so that only the description is left.
	x.delete(x.spec)
	if n := len(x.sim.Snapshot().FloatingIPs); n != 3 {
		t.Errorf("%d floating IPs are left, want the 3 foreign ones", n)
	}
}

func TestSharedLoadBalancer(t *testing.T) {
	x := newLBTest(t, 2, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]

	second := x.service("second", cloud.Settings{plan.AnnLoadBalancerID: id})
	if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "port 80/TCP is taken") {
		t.Errorf("two Services with one port: %v, want KindConflict", err)
	}
	second.Ports[0].Port, second.Ports[1].Port = 8080, 5353
	if got := x.ensure(second).Annotations[plan.AnnLoadBalancerID]; got != id {
		t.Errorf("the second Service has load balancer %s, want %s", got, id)
	}
	x.ensure(x.spec)
	if n := len(x.sim.Snapshot().Listeners); n != 4 {
		t.Errorf("%d listeners, want 4", n)
	}
	third := x.service("third", cloud.Settings{plan.AnnLoadBalancerID: id})
	third.Ports[0].Port, third.Ports[1].Port = 9080, 5454
	if _, err := x.lbs.Ensure(testContext(t), third); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "max-shared-lb is 2") {
		t.Errorf("a third Service: %v, want KindConflict", err)
	}

	// The owner goes first: the load balancer and its address stay for the other one.
	x.delete(x.spec)
	s := x.sim.Snapshot()
	if len(s.LoadBalancers) != 1 || len(s.Listeners) != 2 || len(s.Pools) != 2 || len(s.FloatingIPs) != 1 {
		t.Errorf("after the owner's deletion: %q", x.objects())
	}
	if tags := x.lb(id).Tags; slices.Contains(tags, "kube_service_kubernetes_default_web") {
		t.Errorf("tags %q still name the deleted Service", tags)
	}
	x.ensure(second)
	x.delete(second)
	x.wantNothing("after both are deleted")
}

func TestUsersOwnLoadBalancer(t *testing.T) {
	x := newLBTest(t, 2, "")
	lb := x.makeLB(loadbalancers.CreateOpts{Name: "mine", Tags: []string{"keep"}, Listeners: []listeners.CreateOpts{{Name: "l", Protocol: "TCP", ProtocolPort: 22,
		DefaultPool: &pools.CreateOpts{Name: "p", Protocol: "TCP", LBMethod: "ROUND_ROBIN"}}}})
	x.spec.Settings[plan.AnnLoadBalancerID] = lb.ID
	x.spec.Settings[plan.AnnInternal] = "true"
	before := x.objects()
	if status := x.ensure(x.spec); status.Ingress[0].IP != lb.VIPAddress {
		t.Errorf("status %+v, want the VIP %s", status, lb.VIPAddress)
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	x.delete(x.spec)
	if after := x.objects(); !slices.Equal(before, after) {
		t.Errorf("objects %q became %q", before, after)
	}
	if tags := x.lb(lb.ID).Tags; !slices.Equal(tags, []string{"keep"}) {
		t.Errorf("tags %q, want the user's", tags)
	}
}

func TestTwoLoadBalancersOfOneName(t *testing.T) {
	x := newLBTest(t, 1, "")
	for range 2 {
		x.makeLB(loadbalancers.CreateOpts{Name: "kube_service_kubernetes_default_web"})
	}
	_, err := x.lbs.Ensure(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "2 load balancers are named") {
		t.Errorf("Ensure: %v, want KindConflict", err)
	}
}

// TestComplaint2751StaleAnnotation (#2751): a load balancer deleted behind our back is made
// anew and keeps its address; an annotation that never was right is refused.
func TestComplaint2751StaleAnnotation(t *testing.T) {
	x := newLBTest(t, 1, "")
	first := x.ensure(x.spec)
	ctx, o := testContext(t), x.op()
	if err := o.deleteLB(ctx, x.lb(first.Annotations[plan.AnnLoadBalancerID])); err != nil {
		t.Fatal(err)
	}
	second := x.ensure(x.spec)
	if second.Annotations[plan.AnnLoadBalancerID] == first.Annotations[plan.AnnLoadBalancerID] || second.Ingress[0].IP != first.Ingress[0].IP {
		t.Errorf("status %+v after %+v: want another load balancer with the same address", second, first)
	}

	// Deleted behind our back again, and then the Service: its floating IP goes all the same.
	if err := o.deleteLB(ctx, x.lb(second.Annotations[plan.AnnLoadBalancerID])); err != nil {
		t.Fatal(err)
	}
	x.delete(x.spec)
	x.wantNothing("after the deletion")

	wrong := x.service("wrong", cloud.Settings{plan.AnnLoadBalancerID: "01234567-89ab-cdef-0123-456789abcdef"})
	if _, err := x.lbs.Ensure(ctx, wrong); cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), plan.AnnLoadBalancerID) {
		t.Errorf("Ensure with a wrong ID: %v, want KindInvalid", err)
	}
}

// TestLoadBalancerIsNotMadeAnewInAnotherCloud: where credentials, or a name in DNS, lead to another
// one, or to another project, neither the load balancer nor the servers of the Nodes are known.
func TestLoadBalancerIsNotMadeAnewInAnotherCloud(t *testing.T) {
	first, x := newLBTest(t, 2, ""), newLBTest(t, 2, "")
	first.ensure(first.spec)
	x.wantRefused(first.spec, "may be that of another project or region")
	first.spec.Members, first.spec.Candidates = nil, first.all
	x.wantRefused(first.spec, "may be that of another project or region")
	first.spec.Members = append(slices.Clone(first.all), x.all[0]) // some have gone, one is there
	x.ensure(first.spec)

	x = newLBTest(t, 2, "")
	forget(first.spec) // never served, as far as anybody knows
	first.spec.Members = first.all
	first.spec.Settings[plan.AnnSubnetID] = x.lbs.cfg.LoadBalancer.SubnetID
	x.ensure(first.spec)
}

// TestUntaggedListenerOfOthersStays: having no tag makes a listener nobody's; only one that
// also has the Service's name is what controllers without tags left of the Service.
func TestUntaggedListenerOfOthersStays(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]
	ctx, o := testContext(t), x.op()
	if _, err := listeners.Create(ctx, o.octavia, listeners.CreateOpts{LoadbalancerID: id, Name: "mine", Protocol: "TCP", ProtocolPort: 7777}).Extract(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.waitActive(ctx, id); err != nil {
		t.Fatal(err)
	}
	x.restart()
	x.spec.Ports[0].NodePort++
	x.ensure(x.spec)
	x.delete(x.spec)
	if left := x.sim.Snapshot().Listeners; len(left) != 1 || left[0].Name != "mine" {
		t.Errorf("left are the listeners %v, want the one of somebody else", left)
	}
}
