package octavia

import (
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// sharing is x.spec and a second Service on its load balancer.
func (x *lbTest) sharing() (second *cloud.LoadBalancerSpec, id string) {
	x.t.Helper()
	x.ensure(x.spec)
	id = x.spec.Settings[plan.AnnLoadBalancerID]
	second = x.service("second", cloud.Settings{plan.AnnLoadBalancerID: id})
	second.Ports[0].Port, second.Ports[1].Port = 8080, 5353
	x.ensure(second)
	return second, id
}

// TestNoRoomOnASharedLoadBalancer: a Service that is refused leaves no mark, which would keep
// the owner from deleting its load balancer.
func TestNoRoomOnASharedLoadBalancer(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]
	before := x.lb(id).Tags
	second := x.service("second", cloud.Settings{plan.AnnLoadBalancerID: id}) // the same ports
	if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict {
		t.Fatalf("Ensure: %v, want KindConflict", err)
	}
	second.Ports[0].Port, second.Ports[1].Port = 8080, 5353
	if err := x.lbs.UpdateMembers(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("UpdateMembers before Ensure: %v, want KindConflict", err)
	}
	if after := x.lb(id).Tags; !slices.Equal(before, after) {
		t.Errorf("tags %q became %q", before, after)
	}
	if n := len(x.sim.Snapshot().Listeners); n != 2 {
		t.Errorf("%d listeners, want 2", n)
	}
	x.delete(x.spec)
	x.wantNothing("after the owner's deletion")
}

// TestSharedFloatingIPStays: one Service's wishes do not take the address of another away.
func TestSharedFloatingIPStays(t *testing.T) {
	x := newLBTest(t, 1, "")
	second, _ := x.sharing()
	address := second.CurrentIngress[0].IP
	wanted := x.makeFIP("", "another")
	for _, spec := range []*cloud.LoadBalancerSpec{x.spec, second} {
		spec.LoadBalancerIP = netip.MustParseAddr(wanted.FloatingIP)
		_, err := x.lbs.Ensure(testContext(t), spec)
		if k := cloud.KindOf(err); err != nil && (k != cloud.KindConflict || !strings.Contains(err.Error(), "not this Service's alone")) {
			t.Errorf("Ensure with another address: %v, want it ignored or KindConflict", err)
		}
		spec.LoadBalancerIP = netip.Addr{}
	}
	x.spec.Settings[plan.AnnInternal] = "true"
	if status := x.ensure(x.spec); !slices.ContainsFunc(status.Warnings, func(text string) bool { return strings.Contains(text, "keeps the floating IP "+address) }) {
		t.Errorf("warnings %q, want one that the internal Service is reached by the shared address", status.Warnings)
	}
	if got := x.ensure(second).Ingress[0].IP; got != address {
		t.Errorf("the second Service's address was %s and is %s", address, got)
	}
	x.delete(second)
	x.delete(x.spec)
	if left := x.sim.Snapshot().FloatingIPs; len(left) != 1 || left[0].ID != wanted.ID {
		t.Errorf("objects %q are left, want the user's floating IP", x.objects())
	}
}

// TestUsersFloatingIPStays: on a user's load balancer with a user's floating IP.
func TestUsersFloatingIPStays(t *testing.T) {
	x := newLBTest(t, 1, "")
	lb := x.makeLB(loadbalancers.CreateOpts{Name: "mine"})
	users := x.makeFIP(lb.VIPPortID, "the user's")
	x.spec.Settings[plan.AnnLoadBalancerID] = lb.ID
	if got := x.ensure(x.spec).Ingress[0].IP; got != users.FloatingIP {
		t.Errorf("address %s, want the user's %s", got, users.FloatingIP)
	}
	x.spec.LoadBalancerIP = netip.MustParseAddr(x.makeFIP("", "another").FloatingIP)
	x.sim.ResetRequests()
	status := x.ensure(x.spec)
	if got := status.Ingress[0].IP; got != users.FloatingIP || len(status.Warnings) != 1 {
		t.Errorf("address %s with warnings %q, want the user's %s and one", got, status.Warnings, users.FloatingIP)
	}
	if n := x.sim.Mutations(); n != 0 {
		t.Errorf("%d changing calls, want none", n)
	}
	x.delete(x.spec)
	if n := len(x.sim.Snapshot().FloatingIPs); n != 2 {
		t.Errorf("%d floating IPs after the deletion, want the user's 2", n)
	}
}

// TestFailedSharedLoadBalancerStays: another Service is served by it.
func TestFailedSharedLoadBalancerStays(t *testing.T) {
	x := newLBTest(t, 1, "")
	_, id := x.sharing()
	defer x.showAs(*x.lb(id), plan.StateError, true, 0)()
	x.sim.ResetRequests()
	if _, err := x.lbs.Ensure(testContext(t), x.service("web", nil)); cloud.KindOf(err) != cloud.KindFailed || !strings.Contains(err.Error(), "is in state ERROR") {
		t.Errorf("Ensure: %v, want KindFailed that names the state", err)
	}
	if n := x.sim.Mutations(); n != 0 {
		t.Errorf("%d changing calls, want none", n)
	}
}

// TestDeletionSparesListenersOfOthers: the tag of a second Service was lost, as other
// controllers do, and a user has put a listener of his own beside ours.
func TestDeletionSparesListenersOfOthers(t *testing.T) {
	for name, tags := range map[string][]string{
		"Service": {"kube_service_kubernetes_default_second"}, "user": {"mine"}, "cluster": {"isthmus-cluster=u2"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newLBTest(t, 1, "")
			x.ensure(x.spec)
			x.spec.Ports[0].Port = 8080 // a creation has no updated_at, a change has
			x.ensure(x.spec)
			o, ctx := x.op(), testContext(t)
			id := x.spec.Settings[plan.AnnLoadBalancerID]
			if err := listeners.Create(ctx, o.octavia, listeners.CreateOpts{LoadbalancerID: id, Name: "theirs", Protocol: "TCP", ProtocolPort: 8443, Tags: tags}).Err; err != nil {
				t.Fatal(err)
			}
			if _, err := o.waitActive(ctx, id); err != nil {
				t.Fatal(err)
			}
			// By the process that made the load balancer, within the second that updated_at tells.
			x.delete(x.spec)
			if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || len(s.Listeners) != 1 || len(s.Pools) != 0 || len(s.FloatingIPs) != 1 {
				t.Errorf("objects %q are left, want the load balancer with the listener and its address", x.objects())
			}
		})
	}
}

// TestDeletionTakesNoShortListForAll: what a list lacks would be deleted with the load balancer,
// if it is another Service's whose tag was lost, or stay behind on a shared one.
func TestDeletionTakesNoShortListForAll(t *testing.T) {
	for _, path := range []string{"/lbaas/listeners", "/lbaas/pools"} {
		for _, lost := range []bool{false, true} {
			x := newLBTest(t, 1, "")
			t.Cleanup(func() { logCalls(t, x.sim) })
			second, id := x.sharing()
			if o := x.op(); lost {
				if err := o.retag(testContext(t), x.lb(id), func(tags []string) []string {
					return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return tag == occmName("second") })
				}); err != nil {
					t.Fatal(err)
				}
			}
			x.restart()
			remove := x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: path, EmptyList: true})
			x.sim.ResetRequests()
			if err := x.lbs.Delete(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindRetryAfter || x.sim.Mutations() != 0 {
				t.Errorf("%s empty, tag lost %v: %v and %d changing calls, want KindRetryAfter and none", path, lost, err, x.sim.Mutations())
			}
			remove()
			x.delete(x.spec)
			x.ensure(second)
			x.delete(second)
			x.wantNothing("after both are deleted")
		}
	}
}

// TestCreatedTwice: a create whose answer never came was carried out after all. The Service
// is served by one of the two, always the same, and its deletion leaves none.
func TestCreatedTwice(t *testing.T) {
	x := newLBTest(t, 1, "")
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	for range 2 {
		x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB, names.OwnerTag}})
	}
	id := x.ensure(x.spec).Annotations[plan.AnnLoadBalancerID]
	fresh := x.service("web", nil) // whose annotations were lost
	if got := x.ensure(fresh).Annotations[plan.AnnLoadBalancerID]; got != id {
		t.Errorf("load balancer %s after %s", got, id)
	}
	foreign := x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB, "isthmus-cluster=u2"}})
	x.delete(x.spec)
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || len(s.FloatingIPs) != 0 || s.LoadBalancers[0].ID != foreign.ID {
		t.Errorf("objects %q are left, want the other cluster's load balancer", x.objects())
	}
}

// TestOtherProjects: an administrator sees what belongs to other projects.
func TestOtherProjects(t *testing.T) {
	x := newLBTest(t, 1, "")
	lb := *x.makeLB(loadbalancers.CreateOpts{Name: plan.NamesOf(x.spec.LoadBalancerRef).LB})
	if lb.ProjectID == "" {
		t.Fatal("the load balancer has no project")
	}
	lb.ProjectID = strings.Repeat("f", 32)
	defer x.showAs(lb, plan.StateActive, true, 1)()
	if got := x.ensure(x.spec).Annotations[plan.AnnLoadBalancerID]; got == lb.ID {
		t.Error("another project's load balancer is taken over")
	}
}

// TestLoadBalancerOfAnotherProjectIsLeftAlone whatever the annotation says, which any tenant may
// write: an administrator could change and delete it.
func TestLoadBalancerOfAnotherProjectIsLeftAlone(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	lb := x.makeLB(loadbalancers.CreateOpts{Name: occmName("web"), Tags: []string{occmName("web")}})
	x.admin = true
	x.restart()
	for _, name := range []string{"web", "second"} { // by name it would be made for the Service, or be shared
		ours := x.sharer(name, lb.ID, 9000)
		x.wantRefused(ours, "belongs to another project")
		x.sim.ResetRequests()
		if err := x.lbs.UpdateMembers(testContext(t), ours); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("UpdateMembers: %v, want KindConflict", err)
		}
		x.delete(ours)
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("%d changing calls, want none", n)
		}
	}
}

// TestUnobtainableFloatingIP: a new Service is told what to do about an address that it cannot
// have; one that has an address keeps it.
func TestUnobtainableFloatingIP(t *testing.T) {
	x := newLBTest(t, 1, "")
	address := x.ensure(x.spec).Ingress[0].IP
	before := x.sim.Snapshot().FloatingIPs
	x.spec.LoadBalancerIP = netip.MustParseAddr("203.0.113.1")
	if got := x.ensure(x.spec).Ingress[0].IP; got != address {
		t.Errorf("address %s, want %s", got, address)
	}
	if after := x.sim.Snapshot().FloatingIPs; len(after) != 1 || after[0].ID != before[0].ID {
		t.Errorf("floating IPs %v became %v", before, after)
	}
	second := x.service("second", nil)
	second.LoadBalancerIP = x.spec.LoadBalancerIP
	if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindDenied || !strings.Contains(err.Error(), "create it beforehand") {
		t.Errorf("Ensure: %v, want the refusal of the floating IP with the next step", err)
	}
	x.delete(second)
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestNewFloatingIPIsWanted: one that does not exist yet, which only administrators can have, is
// made, whatever is cut off.
func TestNewFloatingIPIsWanted(t *testing.T) {
	crashEverywhere(t, "", func(x *lbTest) {
		x.admin = true
		x.restart()
		unused := x.makeFIP("", "")
		if err := x.lbs.floating.Delete(testContext(t), &neutron.FloatingIP{ID: unused.ID}); err != nil {
			t.Fatal(err)
		}
		x.spec.LoadBalancerIP = netip.MustParseAddr(unused.FloatingIP)
	}, tryEnsure, func(x *lbTest) {
		retry(x.t, func() error { return tryEnsure(x) })
		if got := x.spec.CurrentIngress[0].IP; got != x.spec.LoadBalancerIP.String() {
			x.t.Errorf("address %s, want %s", got, x.spec.LoadBalancerIP)
		}
		x.delete(x.spec)
		x.wantNothing("after the deletion")
	})
}

// TestHangingDeletion: a load balancer that Octavia never finishes deleting does not hold up
// the others.
func TestHangingDeletion(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	x.lbs.waits.total, x.lbs.waits.brief = time.Hour, 20*time.Millisecond
	lb := *x.lb(x.spec.Settings[plan.AnnLoadBalancerID])
	defer x.showAs(lb, "PENDING_DELETE", true, 0)()
	defer x.showAs(lb, "PENDING_DELETE", false, 0)()
	_, err := x.lbs.Ensure(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Ensure: %v, want KindRetryAfter", err)
	}
	if err := x.lbs.Delete(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Delete: %v, want KindRetryAfter", err)
	}
}

// TestMovedFloatingIPStays: a user has put the Service's floating IP to another use.
func TestMovedFloatingIPStays(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	other := x.makeLB(loadbalancers.CreateOpts{Name: "other"})
	o, f := x.op(), x.sim.Snapshot().FloatingIPs[0]
	if err := x.lbs.floating.Attach(testContext(t), &neutron.FloatingIP{ID: f.ID}, other.VIPPortID); err != nil {
		t.Fatal(err)
	}
	old := x.spec.CurrentIngress[0].IP
	if got := x.ensure(x.spec).Ingress[0].IP; got == old {
		t.Errorf("address %s, want a new one", got)
	}
	x.delete(x.spec)
	if attached, err := o.attachedFIPs(testContext(t), other); err != nil || len(attached) != 1 || attached[0].ID != f.ID {
		t.Errorf("the other port has floating IPs %v, %v", attached, err)
	}
}

// TestVanishedWhileDeleting: what goes under our hands is no proof that all has gone.
func TestVanishedWhileDeleting(t *testing.T) {
	x := newLBTest(t, 1, "")
	second, id := x.sharing()
	lb := *x.lb(id)
	remove := x.sim.OnMutation(func(m ossim.Mutation) {
		if m.After && m.Method == http.MethodDelete {
			x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: "/lbaas/loadbalancers/" + id, Times: 1,
				Body: `{"loadbalancer":{"id":"` + lb.ID + `","provisioning_status":"DELETED"}}`})
		}
	})
	if err := x.lbs.Delete(testContext(t), second); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Delete: %v, want KindRetryAfter", err)
	}
	remove()
	x.delete(second)
	x.delete(x.spec)
	x.wantNothing("after both are deleted")
}

func TestTreeCacheForgets(t *testing.T) {
	var c treeCache
	now := time.Now()
	c.keep(&plan.LoadBalancer{ID: "a"}, known{readAt: now}, now)
	now = now.Add(treeTTL + time.Second)
	c.keep(&plan.LoadBalancer{ID: "b"}, known{readAt: now}, now)
	left := map[string]int{}
	entries(reflect.ValueOf(&c), "", left)
	if _, ok := c.Get("b", now); !ok || left[".Memory.entries"] != 1 {
		t.Errorf("%v are left, want b only", left)
	}
}

// TestNoVIPPort: an empty filter is none to Neutron.
func TestNoVIPPort(t *testing.T) {
	x := newLBTest(t, 1, "")
	own := x.makeFIP("", plan.NamesOf(x.spec.LoadBalancerRef).FIPDescription)
	o := x.op().without(x.spec.LoadBalancerRef, &holding{lb: &plan.LoadBalancer{ID: "lb"}, names: plan.NamesOf(x.spec.LoadBalancerRef)})
	x.sim.AddFault(ossim.Fault{Service: "network", Method: http.MethodGet, Path: "/floatingips",
		Body: `{"floatingips":[{"id":"` + own.ID + `","port_id":null,"description":"` + own.Description + `"}]}`})
	if _, err := o.removeFIPs(testContext(t), false); err != nil {
		t.Error(err)
	}
	if err := o.deleteFIPs(testContext(t), o.lb); err != nil {
		t.Error(err)
	}
	if _, err := o.ensureFIP(testContext(t), false); err == nil {
		t.Error("a floating IP without a port to lead to")
	}
	if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
		t.Error("a floating IP that leads nowhere is gone")
	}
}
