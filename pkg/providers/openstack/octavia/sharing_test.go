package octavia

import (
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// wantRefused has Ensure refuse the Service, with this text, before anything is changed.
func (x *lbTest) wantRefused(spec *cloud.LoadBalancerSpec, text string) {
	x.t.Helper()
	before := x.objects()
	x.sim.ResetRequests()
	if _, err := x.lbs.Ensure(testContext(x.t), spec); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), text) {
		x.t.Errorf("Ensure: %v, want KindConflict with %q", err, text)
	}
	if n := x.sim.Mutations(); n != 0 {
		x.t.Errorf("a Service that is refused makes %d changing calls", n)
	}
	if after := x.objects(); !slices.Equal(before, after) {
		x.t.Errorf("objects %q became %q", before, after)
	}
}

// TestInternalLoadBalancerIsNotPublishedWhenShared: whoever joins it, and whatever the Service
// that it was made for becomes.
func TestInternalLoadBalancerIsNotPublishedWhenShared(t *testing.T) {
	for _, users := range []bool{false, true} {
		x := newLBTest(t, 2, "")
		t.Cleanup(func() { logCalls(t, x.sim) })
		id := ""
		if users {
			id = x.makeLB(loadbalancers.CreateOpts{Name: "users-own"}).ID
		} else {
			x.spec.Settings[plan.AnnInternal] = "true"
			x.ensure(x.spec)
			id = x.spec.Settings[plan.AnnLoadBalancerID]
		}
		second := x.sharer("second", id, 9000)
		x.wantRefused(second, "only the Service that it was made for may give it one")
		if _, ok := second.Settings[plan.AnnAddress]; ok {
			t.Error("the Service that is refused has published an address")
		}
		second.Settings[plan.AnnInternal] = "true"
		if got, vip := x.ensure(second).Ingress[0].IP, x.lb(id).VIPAddress; got != vip {
			t.Errorf("the internal Service has the address %s, want the VIP %s", got, vip)
		}
		if users {
			continue
		}
		delete(x.spec.Settings, plan.AnnInternal)
		x.spec.Members = x.all[:1]
		if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), occmName("second")) {
			t.Errorf("Ensure of the owner that turns external: %v, want KindConflict that names who shares it", err)
		}
		vip := x.spec.Settings[plan.AnnAddress]
		x.spec.Settings[plan.AnnAddress] = "203.0.113.9" // as if it had had a floating IP
		if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("Ensure of the owner that claims to have had another address: %v, want KindConflict", err)
		}
		x.spec.Settings[plan.AnnAddress] = vip
		if n := len(x.sim.Snapshot().FloatingIPs); n != 0 {
			t.Fatalf("%d floating IPs lead to an internal Service", n)
		}
		if n := len(x.tree(x.spec).Pools[0].Members); n != 1 {
			t.Errorf("the owner's pool has %d members, want the 1 that there is now", n)
		}
		x.delete(second)
		x.ensure(x.spec)
		if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
			t.Errorf("%d floating IPs of the Service alone, want 1", n)
		}
	}
}

// TestExternalLoadBalancerIsNoInternalServices: it would be reached from outside.
func TestExternalLoadBalancerIsNoInternalServices(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	second := x.sharer("second", x.spec.Settings[plan.AnnLoadBalancerID], 9000)
	second.Settings[plan.AnnInternal] = "true"
	x.wantRefused(second, "is reached from outside by the floating IP")
}

// TestSharerKeepsItsAddressWhenItTurnsInternal: it cannot be had there, and the address that clients
// know is not taken from it; its members follow.
func TestSharerKeepsItsAddressWhenItTurnsInternal(t *testing.T) {
	x := newLBTest(t, 2, "")
	second, _ := x.sharing()
	second.Settings[plan.AnnInternal] = "true"
	for _, members := range [][]cloud.LoadBalancerMember{x.all, x.all[:1]} {
		x.restart()
		second.Members = members
		if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "is reached from outside") {
			t.Errorf("Ensure: %v, want KindConflict", err)
		}
		pools := x.tree(second).Pools
		if i := slices.IndexFunc(pools, func(p *plan.Pool) bool { return p.Name == "pool_0_"+plan.NamesOf(second.LoadBalancerRef).LB }); i < 0 || len(pools[i].Members) != len(members) {
			t.Errorf("the sharer's members do not follow the %d Nodes", len(members))
		}
	}
	delete(second.Settings, plan.AnnInternal)
	x.ensure(second)
}

// TestSharerIsServedOnWhenTheFloatingIPIsGone: its members follow, and it makes no address; the
// Service that the load balancer was made for does.
func TestSharerIsServedOnWhenTheFloatingIPIsGone(t *testing.T) {
	x := newLBTest(t, 2, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	second, _ := x.sharing()
	for _, f := range x.sim.Snapshot().FloatingIPs {
		if err := floatingips.Delete(testContext(t), x.op().neutron, f.ID).ExtractErr(); err != nil {
			t.Fatal(err)
		}
	}
	x.restart()
	second.Members = x.all[:1]
	if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "has no floating IP") {
		t.Errorf("Ensure: %v, want KindConflict", err)
	}
	pools := x.tree(second).Pools
	if i := slices.IndexFunc(pools, func(p *plan.Pool) bool { return p.Name == "pool_0_"+plan.NamesOf(second.LoadBalancerRef).LB }); i < 0 || len(pools[i].Members) != 1 {
		t.Error("the sharer's members do not follow the Nodes")
	}
	if n := len(x.sim.Snapshot().FloatingIPs); n != 0 {
		t.Errorf("the sharer has made %d floating IPs", n)
	}
	address := x.ensure(x.spec).Ingress[0].IP
	if got := x.ensure(second).Ingress[0].IP; got != address {
		t.Errorf("the sharer has the address %s, want %s", got, address)
	}
}

// TestListenersOfAnotherClusterOfTheSameNameStay: they have the tag that the Service's would have.
func TestListenersOfAnotherClusterOfTheSameNameStay(t *testing.T) {
	x, _ := recorded(t, "sh-own-fip", 0, "")
	lb, address := x.made(x.spec), x.spec.Settings[plan.AnnAddress]
	ours := x.sharer(x.spec.Name, lb.ID, 9000)
	ours.Namespace = x.spec.Namespace
	x.wantRefused(ours, "may be those of another cluster")
	x.sim.ResetRequests()
	if err := x.lbs.UpdateMembers(testContext(t), ours); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("UpdateMembers: %v, want KindConflict", err)
	}
	x.delete(ours)
	if n := x.sim.Mutations(); n != 0 {
		t.Errorf("%d changing calls, want none", n)
	}
	// With the plan.Evidence of its address the Service is the one that is there.
	published(ours, lb.ID, address)
	x.ensure(ours)
	if tree := x.treeOf(lb.ID); len(tree.Listeners) != 1 || tree.Listeners[0].Port != 9000 {
		t.Errorf("objects %q, want the one listener of port 9000", x.objects())
	}
	x.delete(ours)
	if n := len(x.sim.Snapshot().Listeners); n != 0 {
		t.Errorf("%d listeners after the deletion", n)
	}
}
