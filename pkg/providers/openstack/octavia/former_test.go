package octavia

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// sharer is a Service with one port of its own that names a load balancer.
func (x *lbTest) sharer(name, id string, port int32) *cloud.LoadBalancerSpec {
	spec := x.withPorts(name, 1)
	spec.Ports[0].Port = port
	if id != "" {
		spec.Settings[plan.AnnLoadBalancerID] = id
	}
	return spec
}

// TestTagsOfManyServices: Services that come to and leave one load balancer at the same time
// lose no one's tag: Octavia takes tags as a whole, and without conditions.
func TestTagsOfManyServices(t *testing.T) {
	x := newLBTest(t, 1, "max-shared-lb=20\n")
	t.Cleanup(func() { logCalls(t, x.sim) })
	lb := x.makeLB(loadbalancers.CreateOpts{Name: "users-own", Tags: []string{"theirs"}})
	x.makeFIP(lb.VIPPortID, "the user's")
	const n = 8
	var specs []*cloud.LoadBalancerSpec
	for i := range n {
		specs = append(specs, x.sharer("web"+string(rune('a'+i)), lb.ID, int32(8000+i)))
	}
	all := func(op func(*cloud.LoadBalancerSpec) error) {
		var wg sync.WaitGroup
		for _, spec := range specs {
			wg.Go(func() {
				for range 50 {
					err := op(spec)
					if err == nil {
						return
					}
					if k := cloud.KindOf(err); k != cloud.KindRetryAfter && k != cloud.KindConflict {
						t.Error(err)
						return
					}
				}
				t.Errorf("%s is never done", spec.Name)
			})
		}
		wg.Wait()
	}
	all(func(spec *cloud.LoadBalancerSpec) error {
		_, err := x.lbs.Ensure(testContext(t), spec)
		return err
	})
	want := []string{"theirs"}
	for _, spec := range specs {
		want = append(want, plan.NamesOf(spec.LoadBalancerRef).LB)
	}
	if got := x.lb(lb.ID).Tags; !sameTags(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
	if got := len(x.sim.Snapshot().Listeners); got != n {
		t.Errorf("%d listeners, want %d", got, n)
	}
	all(func(spec *cloud.LoadBalancerSpec) error { return x.lbs.Delete(testContext(t), spec) })
	if got := x.lb(lb.ID).Tags; !slices.Equal(got, []string{"theirs"}) {
		t.Errorf("tags %q are left, want the user's", got)
	}
	if s := x.sim.Snapshot(); len(s.Listeners)+len(s.Pools) != 0 {
		t.Errorf("objects are left: %q", x.objects())
	}
}

// TestTagWrittenAtTheSameTime: somebody outside of this process writes the tags between our
// reading and writing them; ours is found missing and written again, theirs are kept.
func TestTagWrittenAtTheSameTime(t *testing.T) {
	x := newLBTest(t, 1, "")
	lb := x.makeLB(loadbalancers.CreateOpts{Name: "users-own", Tags: []string{"theirs"}})
	x.makeFIP(lb.VIPPortID, "the user's")
	spec := x.sharer("web", lb.ID, 80)
	var begun atomic.Bool
	o := x.op()
	remove := x.sim.OnMutation(func(m ossim.Mutation) {
		if !m.After || m.Method != http.MethodPut || !strings.HasPrefix(m.Path, "/lbaas/loadbalancers/") || begun.Swap(true) {
			return
		}
		for tags := []string{"theirs", "late"}; ; <-time.After(time.Millisecond) { // as soon as ours is done, before anybody knows of it
			err := loadbalancers.Update(testContext(t), o.octavia, lb.ID, loadbalancers.UpdateOpts{Tags: &tags}).Err
			if err == nil {
				return
			}
			if !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
				t.Error(err)
				return
			}
		}
	})
	defer remove()
	retry(t, func() error {
		_, err := x.lbs.Ensure(testContext(t), spec)
		return err
	})
	retry(t, func() error {
		_, err := x.lbs.Ensure(testContext(t), spec)
		return err
	})
	want := []string{"theirs", "late", plan.NamesOf(spec.LoadBalancerRef).LB}
	if got := x.lb(lb.ID).Tags; !sameTags(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
}

// TestMovedToAnotherLoadBalancer: the annotation is changed from one shared load balancer to
// another; nothing of the Service is left on the first, whenever the process is cut off.
func TestMovedToAnotherLoadBalancer(t *testing.T) {
	var a, b *plan.LoadBalancer
	crashEverywhere(t, "", func(x *lbTest) {
		a = x.makeLB(loadbalancers.CreateOpts{Name: "users-a", Tags: []string{"theirs"}})
		b = x.makeLB(loadbalancers.CreateOpts{Name: "users-b", Tags: []string{"theirs"}})
		x.spec.Settings[plan.AnnInternal] = "true"
		other := x.sharer("other", a.ID, 9000)
		other.Settings[plan.AnnInternal] = "true"
		x.ensure(other)
		x.spec.Settings[plan.AnnLoadBalancerID] = a.ID
		x.ensure(x.spec)
		x.spec.Settings[plan.AnnLoadBalancerID] = b.ID
	}, tryEnsure, func(x *lbTest) {
		retry(x.t, func() error { return tryEnsure(x) })
		otherTag := "kube_service_kubernetes_default_other"
		if got := x.lb(a.ID).Tags; !sameTags(got, []string{"theirs", otherTag}) {
			x.t.Errorf("tags %q are left on the first", got)
		}
		if got := x.lb(b.ID).Tags; !sameTags(got, []string{"theirs", "kube_service_kubernetes_default_web"}) {
			x.t.Errorf("tags of the second: %q", got)
		}
		if s := x.sim.Snapshot(); len(s.Listeners) != 3 || len(s.Pools) != 3 {
			x.t.Errorf("objects %q, want one listener on the first and two on the second", x.objects())
		}
		x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	})
}

// TestMovedFromItsOwnLoadBalancer: the load balancer that was made for the Service, and its
// floating IP, go when the Service comes to share another one, and one is made again when the
// annotation is removed. Another cluster's load balancer of the same name stays.
func TestMovedFromItsOwnLoadBalancer(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	foreign := x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB, "isthmus-cluster=u2"}})
	unknown := x.makeLB(loadbalancers.CreateOpts{Name: "elsewhere", Tags: []string{names.LB}})
	own := x.ensureOwn()
	b := x.makeLB(loadbalancers.CreateOpts{Name: "users-b"})
	x.makeFIP(b.VIPPortID, "the user's")
	x.spec.Settings[plan.AnnLoadBalancerID] = b.ID
	x.ensure(x.spec)
	if got := x.ids(); slices.Contains(got, own) || !slices.Contains(got, foreign.ID) || !slices.Contains(got, b.ID) {
		t.Errorf("load balancers %q, want all but %s", got, own)
	}
	if got := x.lb(unknown.ID).Tags; !slices.Equal(got, []string{names.LB}) {
		t.Errorf("tags %q of a load balancer that is not known to be ours", got)
	}
	if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
		t.Errorf("%d floating IPs, want 1", n)
	}
}

// ensureOwn has the Service served by a load balancer of its own, beside others of its name.
func (x *lbTest) ensureOwn() string {
	x.t.Helper()
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	lb := x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB, names.OwnerTag}})
	x.spec.Settings[plan.AnnLoadBalancerID] = lb.ID
	x.ensure(x.spec)
	return lb.ID
}

func (x *lbTest) ids() []string {
	var out []string
	for _, lb := range x.sim.Snapshot().LoadBalancers {
		out = append(out, lb.ID)
	}
	return out
}

// TestLostAnswerMakesNoSecond: Octavia made the load balancer, but its answer was lost, and
// even made another one: one is left, with one floating IP.
func TestLostAnswerMakesNoSecond(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	var once sync.Once
	remove := x.sim.OnMutation(func(m ossim.Mutation) {
		if m.After && m.Method == http.MethodPost && m.Path == "/lbaas/loadbalancers" {
			once.Do(m.Drop)
		}
	})
	defer remove()
	if _, err := x.lbs.Ensure(testContext(t), x.spec); err == nil {
		t.Fatal("the answer is not lost")
	}
	retry(t, func() error { return tryEnsure(x) })
	if n := len(x.ids()); n != 1 {
		t.Errorf("%d load balancers, want 1", n)
	}
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB, names.OwnerTag}}) // the request that Octavia was slow with
	x.spec.Verify = true
	x.ensure(x.spec)
	if got := x.ids(); len(got) != 1 || got[0] != x.spec.Settings[plan.AnnLoadBalancerID] {
		t.Errorf("load balancers %q, want the Service's %s", got, x.spec.Settings[plan.AnnLoadBalancerID])
	}
	x.wantConverged(x.spec, "amphora")
}

// TestComplaint2751StaleLoadBalancer: a load balancer that was deleted in the cloud is made
// anew with the same floating IP, though the annotation still names the old one.
func TestComplaint2751StaleLoadBalancer(t *testing.T) {
	x := newLBTest(t, 1, "")
	address := x.ensure(x.spec).Annotations[plan.AnnAddress]
	old := x.spec.Settings[plan.AnnLoadBalancerID]
	if err := x.op().deleteLB(testContext(t), x.lb(old)); err != nil {
		t.Fatal(err)
	}
	x.restart()
	x.spec.Verify = true
	status := x.ensure(x.spec)
	if status.Annotations[plan.AnnLoadBalancerID] == old || status.Annotations[plan.AnnAddress] != address {
		t.Errorf("annotations %v, want another load balancer with address %s", status.Annotations, address)
	}
	if len(status.Repaired) != 1 {
		t.Errorf("repaired: %q, want one text", status.Repaired)
	}
	x.wantConverged(x.spec, "amphora")
}

// TestComplaintLeakWhenGone: the load balancer is gone when the Service is deleted; the
// floating IP goes all the same, and Get and Delete do not fail.
func TestComplaintLeakWhenGone(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		x := newLBTest(t, 1, "")
		x.ensure(x.spec)
		if err := x.op().deleteLB(testContext(t), x.lb(x.spec.Settings[plan.AnnLoadBalancerID])); err != nil {
			t.Fatal(err)
		}
		if restarted {
			x.restart()
		}
		if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
			t.Fatalf("%d floating IPs before the deletion, want 1", n)
		}
		x.delete(x.spec)
		x.wantNothing("after the deletion")
	}
}

// TestOtherProjectsCredentials: to credentials of another project the load balancer is not
// missing but forbidden, so that neither the Service nor a second load balancer comes of it.
func TestOtherProjectsCredentials(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	hide := x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: "/lbaas/loadbalancers", EmptyList: true})
	defer hide()
	remove := x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: "/lbaas/loadbalancers/" + x.spec.Settings[plan.AnnLoadBalancerID], Status: http.StatusForbidden,
		Body: `{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed.", "debuginfo": null}`})
	defer remove()
	before := x.sim.Mutations()
	if err := x.lbs.Delete(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindDenied {
		t.Errorf("Delete: %v, want KindDenied", err)
	}
	if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindDenied {
		t.Errorf("Ensure: %v, want KindDenied", err)
	}
	if n := x.sim.Mutations() - before; n != 0 {
		t.Errorf("%d changing calls", n)
	}
}

// TestSlowCreationMakesNoSecond: the answer does not come, and the load balancer is not there
// yet, because Octavia shows it only at the end of the request.
func TestSlowCreationMakesNoSecond(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Reset: true, Times: 1})
	if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindUnavailable {
		t.Fatalf("error %v, want an answer that is lost", err)
	}
	x.sim.ResetRequests()
	for range 3 {
		_, err := x.lbs.Ensure(testContext(t), x.spec)
		if cloud.KindOf(err) != cloud.KindRetryAfter || cloud.RetryAfter(err) <= 0 || !strings.Contains(err.Error(), "answer") {
			t.Errorf("error %v, want KindRetryAfter while it may be under way", err)
		}
	}
	if n := x.sim.Mutations(); n > 0 {
		t.Errorf("%d changing calls, want none", n)
	}
	x.lbs.now = func() time.Time { return time.Now().Add(lostCreation) }
	x.ensure(x.spec)
	if n := len(x.ids()); n != 1 {
		t.Errorf("%d load balancers, want 1", n)
	}
}
