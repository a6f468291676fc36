package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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
	x.lbs.waits = defaultLBWaits()
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
	if n := x.lbs.waiter().Len(); n != 0 || len(x.lbs.underway.works) != 0 {
		t.Errorf("remembered are still %d waits and %d works", n, len(x.lbs.underway.works))
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
	x.spec.Settings[annKeepFloatingIP] = "true"
	x.impatience()
	if err := tryEnsure(x); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatal(err)
	}
	id := x.sim.LoadBalancers()[0].ID
	for x.sim.LoadBalancers()[0].Provisioning != stateActive {
		time.Sleep(time.Millisecond)
	}
	x.restart()
	x.showAs(*x.lb(id), stateError, true, 1)
	x.ensure(x.spec)
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || s.LoadBalancers[0].ID == id || len(s.FloatingIPs) != 1 {
		t.Errorf("objects %q, want another load balancer and floating IP", x.objects())
	}
}

// TestServiceMovesWhileOctaviaIsSlow: what it waits for last is the end of the one that it leaves, which it
// must not come back to.
func TestServiceMovesWhileOctaviaIsSlow(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, OctaviaDelay: 20 * time.Millisecond}, 1, "")
	x.spec.Settings[annInternal] = "true"
	x.ensure(x.spec)
	own := x.spec.Settings[annLoadBalancerID]
	other := x.makeLB(loadbalancers.CreateOpts{Name: "user's", VipSubnetID: x.lb(own).VIPSubnetID})
	x.impatience()
	x.spec.Settings[annLoadBalancerID] = other.ID
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
	if got := x.spec.Settings[annLoadBalancerID]; got != other.ID {
		t.Errorf("it has load balancer %s, want %s", got, other.ID)
	}
	for len(x.ids()) > 1 { // its own goes; the test's time ends if it does not
		time.Sleep(time.Millisecond)
	}
	if ids := x.ids(); !slices.Equal(ids, []string{other.ID}) {
		t.Errorf("load balancers %q are there, want the user's only", ids)
	}
}

// TestReadsAreSharedWhileOneIsUnderWay and are never older than the question.
func TestReadsAreSharedWhileOneIsUnderWay(t *testing.T) {
	var group together[int]
	began, release := make(chan map[string]bool), make(chan int)
	read := func(_ context.Context, keys map[string]bool) (int, error) {
		began <- keys
		return <-release, nil
	}
	answers := make(chan int, 10)
	ask := func(key string) {
		got, err := group.do(t.Context(), key, read)
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}
	go ask("a")
	if keys := <-began; len(keys) != 1 {
		t.Errorf("the first asks for %v", keys)
	}
	for _, key := range []string{"b", "c", "d"} {
		go ask(key)
	}
	for { // until all of them wait
		group.mu.Lock()
		waiting := 0
		if group.next != nil {
			waiting = len(group.next.keys)
		}
		group.mu.Unlock()
		if waiting == 3 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	release <- 1
	if got := <-answers; got != 1 {
		t.Errorf("the first is answered %d", got)
	}
	if keys := <-began; len(keys) != 3 {
		t.Errorf("the others ask for %v", keys)
	}
	release <- 2
	for range 3 {
		if got := <-answers; got != 2 {
			t.Errorf("another is answered %d", got)
		}
	}
}
