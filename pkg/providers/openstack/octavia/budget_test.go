package octavia

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// withPorts is a Service with n ports.
func (x *lbTest) withPorts(name string, n int) *cloud.LoadBalancerSpec {
	spec := x.service(name, nil)
	spec.Ports = nil
	for i := range n {
		spec.Ports = append(spec.Ports, cloud.LoadBalancerPort{Name: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Port: int32(8000 + i), NodePort: int32(30000 + i)})
	}
	return spec
}

// TestCallBudgets: what each operation costs, with floating IP, from the first load balancer
// of a process on, for Octavia as Zed is by default, with the jobboard, and for provider ovn.
func TestCallBudgets(t *testing.T) {
	for _, tt := range []struct {
		name, conf string
		jobboard   bool
		healed     int // how many pools Zed has healed with the creation
	}{
		{name: "amphora", conf: "create-monitor=true\n", healed: 2},
		{name: "amphora with jobboard", conf: "create-monitor=true\n", jobboard: true, healed: 99},
		{name: "ovn", conf: "lb-provider=ovn\n", healed: 99},
	} {
		for _, ports := range []int{1, 2, 10} {
			t.Run(fmt.Sprintf("%s/%d ports", tt.name, ports), func(t *testing.T) {
				x := newLBTestOn(t, ossim.Options{StateDelay: 3 * time.Millisecond, Jobboard: tt.jobboard}, 3, tt.conf)
				t.Cleanup(func() { logCalls(t, x.sim) })
				spec := x.withPorts("web", ports)
				x.readOnce()
				x.budget("create", 6, func() { x.ensure(spec) })
				x.budget("unchanged", 2, func() { x.ensure(spec) })
				update := func() {
					if err := x.lbs.UpdateMembers(testContext(t), spec); err != nil {
						t.Error(err)
					}
				}
				spec.Members = slices.Clone(x.all[1:])
				x.budget("first node-set change", 1+ports+max(0, ports-tt.healed), update)
				spec.Members = slices.Clone(x.all)
				x.budget("node-set change", 1+ports, update)
				x.budget("unchanged after it", 2, func() { x.ensure(spec) })
				x.wantConverged(spec, strings.Fields(tt.name)[0])
				x.budget("delete", 4, func() { x.delete(spec) })
				x.wantNothing("after the deletion")
			})
		}
	}
}

// TestRestartBudget: a process that has just started reads all load balancers at once.
func TestRestartBudget(t *testing.T) {
	for _, n := range []int{1, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 3, "create-monitor=true\n")
			x.lbs.waits.first = time.Millisecond
			var specs []*cloud.LoadBalancerSpec
			for i := range n {
				spec := x.withPorts(fmt.Sprint("web", i), 3)
				x.ensure(spec)
				specs = append(specs, spec)
			}
			x.restart()
			x.lbs.now = func() time.Time { return time.Now().Add(time.Hour) } // not in the second of the last change
			x.sim.ResetRequests()
			for _, spec := range specs {
				x.ensure(spec)
			}
			if got, most := calls(x.sim), 2*n+4+1; got > most { // one asks whether groups were managed before
				t.Errorf("%d unchanged load balancers cost %d calls after a restart, allowed are %d", n, got, most)
			} else {
				t.Logf("%d unchanged load balancers cost %d calls after a restart", n, got)
			}
			if x.sim.Mutations() != 0 {
				t.Errorf("%d changing calls", x.sim.Mutations())
			}
			x.sim.ResetRequests()
			for _, spec := range specs {
				x.ensure(spec)
			}
			if got := calls(x.sim); got != 2*n {
				t.Errorf("%d unchanged load balancers cost %d calls", n, got)
			}
			// What the snapshot did not tell of the members is read before they are set.
			specs[0].Members = slices.Clone(x.all[1:])
			if err := x.lbs.UpdateMembers(testContext(t), specs[0]); err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				x.wantConverged(specs[0], "amphora")
			}
		})
	}
}

// TestSnapshotSeesChanges: what was changed while the process was away, and after it has
// read its snapshot, is put right.
func TestSnapshotSeesChanges(t *testing.T) {
	for name, change := range map[string]func(x *lbTest, o *testOp, tree *plan.Tree) plan.Change{
		"member gone": func(_ *lbTest, _ *testOp, tree *plan.Tree) plan.Change {
			tree.Pools[0].Members = tree.Pools[0].Members[1:]
			return plan.Change{Action: plan.SetMembers, Pool: tree.Pools[0]}
		},
		"timeout": func(_ *lbTest, _ *testOp, tree *plan.Tree) plan.Change {
			tree.Listeners[0].Timeouts.Client = 1000
			return plan.Change{Action: plan.UpdateListener, Listener: tree.Listeners[0]}
		},
		"monitor gone": func(_ *lbTest, _ *testOp, tree *plan.Tree) plan.Change {
			return plan.Change{Action: plan.DeleteMonitor, Pool: tree.Pools[0]}
		},
		"weight": func(_ *lbTest, _ *testOp, tree *plan.Tree) plan.Change { // which is the user's
			w := 7
			tree.Pools[0].Members[0].Weight = &w
			return plan.Change{Action: plan.SetMembers, Pool: tree.Pools[0]}
		},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when+" the snapshot", func(t *testing.T) {
				x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, Jobboard: true}, 3, "create-monitor=true\n")
				t.Cleanup(func() { logCalls(t, x.sim) })
				first := x.service("first", nil)
				x.ensure(first)
				x.ensure(x.spec)
				drift := func() {
					o := x.op()
					c := change(x, o, x.tree(x.spec))
					if err := o.call(testContext(t), x.spec.Settings[plan.AnnLoadBalancerID], c); err != nil {
						t.Fatal(err)
					}
					if _, err := o.waitActive(testContext(t), x.spec.Settings[plan.AnnLoadBalancerID]); err != nil {
						t.Fatal(err)
					}
				}
				if when == "before" {
					drift()
				}
				x.restart()
				clock := time.Hour
				x.lbs.now = func() time.Time { return time.Now().Add(clock) }
				x.ensure(first) // reads the snapshot
				if when == "after" {
					time.Sleep(1100 * time.Millisecond) // Octavia's timestamps have seconds
					drift()
				}
				x.ensure(x.spec)
				x.ensure(x.spec)
				if changes, err := x.changes(x.spec, "amphora"); err != nil || len(changes) > 0 {
					t.Errorf("not put right: %v, %v", changes, err)
				}
				x.spec.Members = slices.Clone(x.all[:2])
				if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
					t.Fatal(err)
				}
				if name == "weight" {
					got := 0
					for _, m := range x.tree(x.spec).Pools[0].Members {
						got += *m.Weight
					}
					if got != 8 && got != 2 || len(x.tree(x.spec).Pools[0].Members) != 2 {
						t.Errorf("weights add up to %d: a member's was reset", got)
					}
				}
			})
		}
	}
}

// TestVerifyTrustsNothing: a change that no timestamp tells of is found when asked for.
func TestVerifyTrustsNothing(t *testing.T) {
	x := newLBTest(t, 2, "create-monitor=true\n")
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]
	drift := x.op()
	tree := x.tree(x.spec)
	tree.Pools[0].Members = nil
	if err := drift.call(testContext(t), id, plan.Change{Action: plan.SetMembers, Pool: tree.Pools[0]}); err != nil {
		t.Fatal(err)
	}
	lb, err := drift.waitActive(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	known, _ := x.lbs.trees.Get(id, time.Now())
	x.lbs.trees.keep(lb, known, time.Now()) // as if it had been in the same second
	if status := x.ensure(x.spec); len(status.Repaired) != 0 || len(x.tree(x.spec).Pools[0].Members) != 0 {
		t.Fatalf("the change is not hidden, so that the test shows nothing: %q", status.Repaired)
	}
	x.spec.Verify = true
	status := x.ensure(x.spec)
	if len(status.Repaired) != 1 || !strings.Contains(status.Repaired[0], "set members of pool_0_") {
		t.Errorf("repaired: %q, want the members of one pool", status.Repaired)
	}
	x.wantConverged(x.spec, "amphora")
	if status := x.ensure(x.spec); len(status.Repaired) != 0 {
		t.Errorf("repaired again: %q", status.Repaired)
	}
}

// What was put right is told also when Octavia needs longer for it than an operation waits.
func TestRepairsOfASlowOctaviaAreTold(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]
	drift, tree := x.op(), x.tree(x.spec)
	tree.Pools[0].Members = nil
	if err := drift.call(testContext(t), id, plan.Change{Action: plan.SetMembers, Pool: tree.Pools[0]}); err != nil {
		t.Fatal(err)
	}
	if _, err := drift.waitActive(testContext(t), id); err != nil {
		t.Fatal(err)
	}
	patient := x.lbs.waits
	x.lbs.waits = waits{first: time.Millisecond, most: time.Millisecond, total: time.Millisecond, brief: time.Millisecond, retry: time.Millisecond}
	x.spec.Verify = true
	release := x.sim.HoldStates()
	if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatalf("error %v, so that the test shows nothing", err)
	}
	release()
	x.lbs.waits = patient
	if status := x.ensure(x.spec); len(status.Repaired) != 1 || !strings.Contains(status.Repaired[0], "set members of pool_0_") {
		t.Errorf("repaired: %q, want the members of one pool", status.Repaired)
	}
	if status := x.ensure(x.spec); len(status.Repaired) != 0 {
		t.Errorf("repaired again: %q", status.Repaired)
	}
}

// TestComplaint2858SlowOctavia: while an amphora is slow, no operation waits for it for long,
// each change is made once, and what was read is not read again.
func TestComplaint2858SlowOctavia(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{OctaviaDelay: 150 * time.Millisecond}, 3, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	const ports = 5
	spec := x.withPorts("web", ports)
	impatient := waits{first: 4 * time.Millisecond, most: 10 * time.Millisecond, total: 30 * time.Millisecond, brief: 20 * time.Millisecond, retry: time.Millisecond}
	x.lbs.waits = impatient
	ensureAll := func(op func() error) (tries int) {
		for tries = 1; tries < 10_000; tries++ {
			before := x.sim.Mutations()
			err := op()
			if err == nil {
				return tries
			}
			if cloud.KindOf(err) != cloud.KindRetryAfter {
				t.Fatal(err)
			}
			if changed := x.sim.Mutations() > before; changed != cloud.HasProgress(err) {
				t.Errorf("an operation that changes something (%v): progress is %v", changed, !changed)
			}
		}
		t.Fatal("never done")
		return 0
	}
	counts := func() (mutations, reads int) {
		for _, r := range x.sim.Requests() {
			switch {
			case r.Service == "identity":
			case r.Method != http.MethodGet:
				mutations++
			case !strings.HasPrefix(r.Path, "/lbaas/loadbalancers"):
				reads++
			}
		}
		return mutations, reads
	}
	x.sim.ResetRequests()
	release, begun := x.sim.HoldStates(), 0
	if tries := ensureAll(func() error {
		if begun++; begun == 3 {
			release()
		}
		status, err := x.lbs.Ensure(testContext(t), spec)
		if err == nil {
			publish(spec, status)
		}
		return err
	}); tries < 3 {
		t.Errorf("the creation took %d operations: Octavia is not slow enough for this test", tries)
	}
	// The create, two pools touched, the floating IP; the subnet is read.
	if m, r := counts(); m != 4 || r > 2 {
		t.Errorf("slow creation: %d changing calls and %d reads, want 4 and at most 2", m, r)
	}
	spec.Members = slices.Clone(x.all[1:])
	for i := range 2 {
		x.sim.ResetRequests()
		ensureAll(func() error { return x.lbs.UpdateMembers(testContext(t), spec) })
		want := ports + (1-i)*(ports-2)
		if m, r := counts(); m != want || r != 0 {
			t.Errorf("slow node-set change %d: %d changing calls and %d reads, want %d and none", i, m, r, want)
		}
		spec.Members = slices.Clone(x.all)
	}
	x.lbs.waits.brief, x.lbs.waits.total = 10*time.Second, 10*time.Second
	spec.Members = slices.Clone(x.all)
	x.wantConverged(spec, "amphora")
}

// TestVeryManyChildrenAreMadeOneByOne: no call gets as large as ports and source ranges together
// can make it.
func TestVeryManyChildrenAreMadeOneByOne(t *testing.T) {
	for n, want := range map[int]int{maxPopulated/2 - 1: 2, maxPopulated/2 + 1: 0} { // ranges of two ports, listeners in the first call
		x := newLBTest(t, 1, "")
		spec := x.withPorts("web", 2)
		spec.Members = nil
		for i := range n {
			spec.SourceRanges = append(spec.SourceRanges, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32))
		}
		var sent int
		remove := x.sim.OnMutation(func(m ossim.Mutation) {
			if m.Method == http.MethodPost && m.Path == "/lbaas/loadbalancers" {
				sent = strings.Count(string(m.Body), `"protocol_port"`)
			}
		})
		spec.Settings[plan.AnnSubnetID] = x.lbs.cfg.LoadBalancer.SubnetID
		x.ensure(spec)
		remove()
		if sent != want || len(x.sim.Snapshot().Listeners) != 2 {
			t.Errorf("%d ranges: the call that makes the load balancer makes %d listeners, want %d; objects %q", n, sent, want, x.objects())
		}
	}
}

// TestManyChangesAreMadeInTurns: an operation ends after its turn, and the next one goes on without
// reading anything again.
func TestManyChangesAreMadeInTurns(t *testing.T) {
	x := newLBTest(t, 2, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	const ports = 12
	spec := x.withPorts("web", ports)
	x.ensure(spec)
	spec.Members = x.all[:1]
	x.ensure(spec)
	spec.Members = x.all
	x.lbs.waits.turn = time.Nanosecond
	for _, op := range []func() error{
		func() error { return x.lbs.UpdateMembers(testContext(t), spec) },
		func() error {
			spec.Members = x.all[:1]
			_, err := x.lbs.Ensure(testContext(t), spec)
			return err
		},
	} {
		x.sim.ResetRequests()
		for left := ports - 1; left > 0; left-- {
			err := op()
			if cloud.KindOf(err) != cloud.KindRetryAfter || !cloud.HasProgress(err) || !strings.Contains(err.Error(), fmt.Sprintf("%d changes of", left)) {
				t.Fatalf("%v, want %d changes left", err, left)
			}
		}
		if err := op(); err != nil {
			t.Fatal(err)
		}
		for _, r := range x.sim.Requests() {
			if r.Service == "load-balancer" && r.Method == http.MethodGet && !strings.HasPrefix(r.Path, "/lbaas/loadbalancers") {
				t.Errorf("%s is read again", r.Path)
			}
		}
		if n := x.sim.Mutations(); n != ports {
			t.Errorf("%d changing calls, want %d", n, ports)
		}
	}
	x.delete(spec)
	x.wantNothing("after the deletion")
}

// TestWishChangesWhileUnderway: a Service that changes while its load balancer is being
// changed gets what it wants last.
func TestWishChangesWhileUnderway(t *testing.T) {
	x := newLBTest(t, 3, "")
	patient := x.lbs.waits
	spec := x.withPorts("web", 3)
	x.ensure(spec)
	x.lbs.waits = waits{first: time.Millisecond, most: time.Millisecond, total: time.Millisecond, brief: time.Millisecond, retry: time.Millisecond}
	spec.Members = slices.Clone(x.all[1:])
	release := x.sim.HoldStates()
	if err := x.lbs.UpdateMembers(testContext(t), spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Fatalf("UpdateMembers: %v, want KindRetryAfter", err)
	}
	release()
	x.lbs.waits = patient
	spec.Members = slices.Clone(x.all[:2])
	x.ensure(spec)
	x.wantConverged(spec, "amphora")
}
