package octavia

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// impatience gives the worker back each time that Octavia is not done.
func (x *lbTest) impatience() {
	x.lbs.Attach(testContext(x.t), func(cloud.LoadBalancerRef) {})
	x.unattachedImpatience()
}

func (x *lbTest) unattachedImpatience() {
	x.lbs.waits.total, x.lbs.waits.brief = time.Microsecond, time.Microsecond
}

// until has op called until Octavia is done, and returns how often it was told to come back.
func until(t *testing.T, op func() error) int {
	t.Helper()
	for n := range 10_000 {
		if err := op(); err == nil {
			return n
		} else if cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the operation never succeeds")
	return 0
}

// count is how many requests there were that begin so.
func (x *lbTest) count(method, path string) (n int) {
	for _, r := range x.sim.Requests() {
		if r.Method == method && strings.HasPrefix(r.Path, path) {
			n++
		}
	}
	return n
}

// TestHundredCreationsGoOutWithOneWorkerWhenOctaviaIsSlow: no worker waits for Octavia, each load balancer has
// its floating IP meanwhile, and what is pending is looked at with one list a second at most.
func TestHundredCreationsGoOutWithOneWorkerWhenOctaviaIsSlow(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: time.Hour}, 1, "")
	x.lbs.waits = defaultWaits()
	x.impatience()
	ctx := testContext(t)
	const n = 100
	var specs []*cloud.LoadBalancerSpec
	for i := range n {
		specs = append(specs, x.service(fmt.Sprint("web", i), nil))
	}
	began := time.Now()
	for range 3 {
		for _, spec := range specs {
			if _, err := x.lbs.Ensure(ctx, spec); cloud.KindOf(err) != cloud.KindRetryAfter {
				t.Fatalf("Ensure: %v, want KindRetryAfter", err)
			}
		}
	}
	took := time.Since(began)
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != n || len(s.FloatingIPs) != n {
		t.Errorf("%d load balancers and %d floating IPs, want %d", len(s.LoadBalancers), len(s.FloatingIPs), n)
	}
	if posts := x.count(http.MethodPost, "/lbaas/loadbalancers"); posts != n {
		t.Errorf("%d creations", posts)
	}
	// One finds each Service's by its name; none is looked at by itself, but the first while it was alone.
	looks := 0
	for _, r := range x.sim.Requests() {
		if r.Method == http.MethodGet && r.Path == "/lbaas/loadbalancers" && r.Query.Get("name") == "" && r.Query.Get("tags") == "" {
			looks++
		}
	}
	if most := int(took/time.Second) + 2; looks > most {
		t.Errorf("%d lists of what is pending in %s", looks, took)
	}
	if gets := x.count(http.MethodGet, "/lbaas/loadbalancers/"); gets > 1 {
		t.Errorf("%d load balancers are looked at one by one", gets)
	}
}

// TestAddressIsToldBeforeWhatOnlyTidiesUp: once, and when the process is killed then, the next one does the rest.
func TestAddressIsToldBeforeWhatOnlyTidiesUp(t *testing.T) {
	for _, killed := range []bool{false, true} {
		x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 2, "")
		x.lbs.Attach(testContext(t), func(cloud.LoadBalancerRef) {})
		status, err := x.lbs.Ensure(testContext(t), x.spec)
		if cloud.KindOf(err) != cloud.KindRetryAfter || status == nil {
			t.Fatalf("Ensure: %v, %v, want the address and KindRetryAfter", status, err)
		}
		snapshot := x.sim.Snapshot()
		if len(snapshot.FloatingIPs) != 1 || len(status.Ingress) != 1 || !strings.Contains(fmt.Sprint(snapshot.FloatingIPs[0]), status.Ingress[0].IP) || len(status.Annotations) > 0 {
			t.Errorf("told early is %+v of %+v, want the address alone", status, snapshot.FloatingIPs)
		}
		if n := x.count(http.MethodPut, "/lbaas/"); n > 0 {
			t.Errorf("%d changes before the address is told", n)
		}
		if publish(x.spec, status); killed {
			x.restart()
		}
		after := x.ensure(x.spec)
		if !reflect.DeepEqual(after.Ingress, status.Ingress) || after.Annotations[plan.AnnLoadBalancerID] == "" {
			t.Errorf("killed %v: %+v, want the same address and the rest", killed, after)
		}
		if n := x.count(http.MethodPut, "/lbaas/pools/"); n == 0 {
			t.Errorf("killed %v: no pool is touched, so that nothing is served", killed)
		}
		x.wantConverged(x.spec, "amphora")
	}
}

// TestFloatingIPGoesThoughItsLoadBalancerIsGoneBeforeAllWasDone: the address is told before the annotations are.
func TestFloatingIPGoesThoughItsLoadBalancerIsGoneBeforeAllWasDone(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 2, "")
	x.lbs.Attach(testContext(t), func(cloud.LoadBalancerRef) {})
	status, err := x.lbs.Ensure(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter || status == nil {
		t.Fatalf("Ensure: %v, %v, want the address and KindRetryAfter", status, err)
	}
	publish(x.spec, status)
	if fips := x.sim.Snapshot().FloatingIPs; len(fips) != 1 {
		t.Fatalf("%d floating IPs, want 1", len(fips))
	}
	sc, err := x.lbs.octavia.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sc.Delete(testContext(t), x.sim.LoadBalancers()[0].ID, true); err != nil {
		t.Fatal(err)
	}
	for len(x.sim.LoadBalancers()) > 0 {
		time.Sleep(time.Millisecond)
	}
	x.restart()
	x.delete(x.spec)
	if fips := x.sim.Snapshot().FloatingIPs; len(fips) > 0 {
		t.Errorf("floating IPs %v are left", fips)
	}
}

// TestServiceGoesOnWithoutLookingItUpWhenOctaviaIsDone: and is told of that.
func TestServiceGoesOnWithoutLookingItUpWhenOctaviaIsDone(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 30 * time.Millisecond, Jobboard: true}, 2, "")
	x.unattachedImpatience()
	told := make(chan string, 100)
	x.lbs.Attach(testContext(t), func(ref cloud.LoadBalancerRef) { told <- ref.Name })
	op := func(what string, want string, f func() error) {
		t.Helper()
		x.sim.ResetRequests()
		if err := f(); cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Fatalf("%s: %v, want KindRetryAfter", what, err)
		}
		if name := <-told; name != "web" {
			t.Errorf("%s: told %s", what, name)
		}
		for range 5 {
			x.sim.ResetRequests()
			err := f()
			if cloud.KindOf(err) == cloud.KindRetryAfter { // the next of its changes
				<-told
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			break
		}
		var got []string
		for _, r := range x.sim.Requests() {
			got = append(got, r.Method+" "+strings.Split(strings.TrimPrefix(r.Path, "/lbaas/"), "/")[0])
		}
		if joined := strings.Join(got, ", "); joined != want {
			t.Errorf("%s: after Octavia was done: %s, want %s", what, joined, want)
		}
	}
	op("create", "GET loadbalancers", func() error { return tryEnsure(x) }) // the status tree
	x.spec.Members = slices.Clone(x.all[1:])
	op("members", "", func() error { return x.lbs.UpdateMembers(testContext(t), x.spec) })
	op("delete", "", func() error { return x.lbs.Delete(testContext(t), x.spec) })
	x.wantNothing("after the deletion")
	works := map[string]int{}
	entries(reflect.ValueOf(&x.lbs.underway), "", works)
	if n := x.lbs.waiter().Len(); n != 0 || works[".entries"] != 0 {
		t.Errorf("remembered are still %d waits and %d works", n, works[".entries"])
	}
}

// TestDeletionsShareTheirReads: of load balancers, of floating IPs and of what Octavia works on.
func TestDeletionsShareTheirReads(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 50 * time.Millisecond, Jobboard: true}, 1, "")
	const n = 30
	var specs []*cloud.LoadBalancerSpec
	for i := range n {
		spec := x.service(fmt.Sprint("web", i), nil)
		x.ensure(spec)
		specs = append(specs, spec)
	}
	x.lbs.waits.gap = time.Second
	x.impatience()
	defer x.sim.AddFault(ossim.Fault{Latency: 20 * time.Millisecond})()
	x.sim.ResetRequests()
	var wg sync.WaitGroup
	for _, spec := range specs {
		wg.Go(func() {
			until(t, func() error { return x.lbs.Delete(testContext(t), spec) })
		})
	}
	wg.Wait()
	reads := 0
	for _, r := range x.sim.Requests() {
		if r.Method == http.MethodGet {
			reads++
		}
	}
	if reads > 2*n {
		t.Errorf("%d reads for %d deletions", reads, n)
	}
	t.Logf("%d reads for %d deletions", reads, n)
	x.wantNothing("after the deletions")
}

// TestCrashWhileOctaviaIsSlow cuts everything off between all calls, also where a worker was given
// back in between: with the floating IP before the load balancer is there, and changes half done.
func TestCrashWhileOctaviaIsSlow(t *testing.T) {
	step := func(op func(*lbTest) error) func(*lbTest) error {
		return func(x *lbTest) error {
			x.impatience()
			for {
				err := op(x)
				if cloud.KindOf(err) != cloud.KindRetryAfter {
					return err
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
	}
	remove := func(x *lbTest) error { return x.lbs.Delete(testContext(x.t), x.spec) }
	check := func(x *lbTest) {
		retry(x.t, func() error { return tryEnsure(x) })
		x.wantConverged(x.spec, x.lbs.cfg.LoadBalancer.Provider)
		if s := x.sim.Snapshot(); len(s.FloatingIPs) != 1 || len(s.LoadBalancers) != 1 {
			x.t.Errorf("%d floating IPs and %d load balancers, want one each", len(s.FloatingIPs), len(s.LoadBalancers))
		}
		retry(x.t, func() error { return remove(x) })
		x.wantNothing("after the deletion")
	}
	for _, conf := range []string{"", "lb-provider=ovn\n"} {
		t.Run("create "+conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(*lbTest) {}, step(tryEnsure), check)
		})
		t.Run("change "+conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(x *lbTest) {
				x.ensure(x.spec)
				x.spec.Members = slices.Clone(x.all[1:])
				x.spec.Ports[0].Port = 8080
			}, step(tryEnsure), check)
		})
		t.Run("delete "+conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(x *lbTest) { x.ensure(x.spec) }, step(remove), func(x *lbTest) {
				retry(x.t, func() error { return remove(x) })
				x.wantNothing("after the deletion")
			})
		})
		t.Run("create, then deleted "+conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(*lbTest) {}, step(tryEnsure), func(x *lbTest) {
				retry(x.t, func() error { return remove(x) })
				x.wantNothing("after the deletion")
			})
		})
	}
}

// TestRestartWhileOctaviaBuilds: the new process finds the load balancer and the floating IP that it has.
func TestRestartWhileOctaviaBuilds(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 100 * time.Millisecond}, 1, "")
	x.impatience()
	if err := tryEnsure(x); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatal(err)
	}
	fips := x.sim.Snapshot().FloatingIPs
	if len(fips) != 1 {
		t.Fatalf("%d floating IPs while Octavia builds, want one", len(fips))
	}
	x.restart()
	x.impatience()
	if n := until(t, func() error { return tryEnsure(x) }); n == 0 {
		t.Error("it was not told to come back: the test proves nothing")
	}
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || len(s.FloatingIPs) != 1 || s.FloatingIPs[0].ID != fips[0].ID {
		t.Errorf("objects %q, published %v", x.objects(), x.spec.CurrentIngress)
	}
}

// TestNobodyIsToldWithoutATerm: who comes back looks for itself.
func TestNobodyIsToldWithoutATerm(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 20 * time.Millisecond}, 1, "")
	x.unattachedImpatience()
	until(t, func() error { return tryEnsure(x) })
	until(t, func() error { return x.lbs.Delete(testContext(t), x.spec) })
	x.wantNothing("after the deletion")
}

// TestDeletedWhileOctaviaBuilds: nothing is left, and none of it is waited for by a worker.
func TestDeletedWhileOctaviaBuilds(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 50 * time.Millisecond}, 1, "")
	x.impatience()
	if err := tryEnsure(x); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatal(err)
	}
	until(t, func() error { return x.lbs.Delete(testContext(t), x.spec) })
	x.wantNothing("after the deletion")
}

// TestFloatingIPGoesWithTheCreationThatFailed: it was made before that was known, also where it is to
// be kept once the Service was served.
func TestFloatingIPGoesWithTheCreationThatFailed(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 50 * time.Millisecond}, 1, "")
	x.spec.Settings[plan.AnnKeepFloatingIP] = "true"
	x.unattachedImpatience()
	told := make(chan struct{}, 10)
	x.lbs.Attach(testContext(t), func(cloud.LoadBalancerRef) { told <- struct{}{} })
	if err := tryEnsure(x); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatal(err)
	}
	id := x.sim.LoadBalancers()[0].ID
	<-told // nothing is looked at any more
	x.restart()
	x.showAs(*x.lb(id), plan.StateError, true, 1)
	x.ensure(x.spec)
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || s.LoadBalancers[0].ID == id || len(s.FloatingIPs) != 1 {
		t.Errorf("objects %q, want another load balancer and floating IP", x.objects())
	}
}

// TestFloatingIPThatWasThereBeforeStaysWhenTheCreationFails: also one that was made for a Service of the name.
func TestFloatingIPThatWasThereBeforeStaysWhenTheCreationFails(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 50 * time.Millisecond}, 1, "")
	before := x.makeFIP("", plan.NamesOf(x.spec.LoadBalancerRef).FIPDescription)
	x.spec.LoadBalancerIP = netip.MustParseAddr(before.FloatingIP)
	x.unattachedImpatience()
	told := make(chan struct{}, 10)
	x.lbs.Attach(testContext(t), func(cloud.LoadBalancerRef) { told <- struct{}{} })
	if err := tryEnsure(x); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatal(err)
	}
	id := x.sim.LoadBalancers()[0].ID
	<-told
	x.restart()
	x.showAs(*x.lb(id), plan.StateError, true, 1)
	x.ensure(x.spec)
	fips := x.sim.Snapshot().FloatingIPs
	if len(fips) != 1 || fips[0].ID != before.ID || x.sim.LoadBalancers()[0].ID == id {
		t.Errorf("floating IPs %+v, want %s on another load balancer", fips, before.ID)
	}
}

// TestServiceMovesWhileOctaviaIsSlow: what it waits for last is the end of the one that it leaves, which it
// must not come back to.
func TestServiceMovesWhileOctaviaIsSlow(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 20 * time.Millisecond}, 1, "")
	x.spec.Settings[plan.AnnInternal] = "true"
	x.ensure(x.spec)
	own := x.spec.Settings[plan.AnnLoadBalancerID]
	other := x.makeLB(loadbalancers.CreateOpts{Name: "user's", VipSubnetID: x.lb(own).VIPSubnetID})
	x.impatience()
	x.spec.Settings[plan.AnnLoadBalancerID] = other.ID
	for range 10_000 {
		status, err := x.lbs.Ensure(testContext(t), x.spec)
		if err == nil {
			publish(x.spec, status)
			break
		}
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if got := x.spec.Settings[plan.AnnLoadBalancerID]; got != other.ID {
		t.Errorf("it has load balancer %s, want %s", got, other.ID)
	}
	for len(x.ids()) > 1 { // its own goes; the test's time ends if it does not
		time.Sleep(time.Millisecond)
	}
	if ids := x.ids(); !slices.Equal(ids, []string{other.ID}) {
		t.Errorf("load balancers %q are there, want the user's only", ids)
	}
}
