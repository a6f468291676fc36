package octavia

import (
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// TestCrashWhileDeletingWithGroups: neither a group nor a port's use of it is left.
func TestCrashWhileDeletingWithGroups(t *testing.T) {
	var before map[string][]string
	crashEverywhere(t, managed, func(x *lbTest) {
		before = x.groupsBefore()
		x.ensure(x.spec)
	}, func(x *lbTest) error {
		return x.lbs.Delete(testContext(x.t), x.spec)
	}, func(x *lbTest) {
		retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
		x.wantNothing("after the deletion")
		for server, groups := range x.groupsBefore() {
			if !slices.Equal(groups, before[server]) {
				x.t.Errorf("port %s has the groups %v, want %v", server, groups, before[server])
			}
		}
	})
}

// TestCrashOfSharedLoadBalancer: a second Service comes to a load balancer, and goes, cut off
// at any point; the first one stays as it was, and nothing of the second is left.
func TestCrashOfSharedLoadBalancer(t *testing.T) {
	var second *cloud.LoadBalancerSpec
	join := func(x *lbTest) {
		x.ensure(x.spec)
		second = x.service("second", cloud.Settings{plan.AnnLoadBalancerID: x.spec.Settings[plan.AnnLoadBalancerID]})
		second.Ports[0].Port, second.Ports[1].Port = 8080, 5353
	}
	ensure := func(x *lbTest) error {
		status, err := x.lbs.Ensure(testContext(x.t), second)
		if err == nil {
			publish(second, status)
		}
		return err
	}
	remove := func(spec func(*lbTest) *cloud.LoadBalancerSpec) func(*lbTest) error {
		return func(x *lbTest) error { return x.lbs.Delete(testContext(x.t), spec(x)) }
	}
	ofFirst, ofSecond := func(x *lbTest) *cloud.LoadBalancerSpec { return x.spec }, func(*lbTest) *cloud.LoadBalancerSpec { return second }
	end := func(x *lbTest, specs ...func(*lbTest) *cloud.LoadBalancerSpec) {
		for _, spec := range specs {
			retry(x.t, func() error { return remove(spec)(x) })
		}
		x.wantNothing("after both are deleted")
	}
	t.Run("joins", func(t *testing.T) {
		crashEverywhere(t, managed, join, ensure, func(x *lbTest) {
			retry(x.t, func() error { return ensure(x) })
			if n := len(x.sim.Snapshot().Listeners); n != 4 {
				x.t.Errorf("%d listeners, want 4", n)
			}
			end(x, ofFirst, ofSecond)
		})
	})
	t.Run("joins and is deleted", func(t *testing.T) {
		crashEverywhere(t, managed, join, ensure, func(x *lbTest) {
			retry(x.t, func() error { return remove(ofSecond)(x) })
			if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || len(s.Listeners) != 2 || len(s.SecurityGroups) != 2 || len(s.FloatingIPs) != 1 {
				x.t.Errorf("objects %q are left, want the first Service's", x.objects())
			}
			end(x, ofFirst)
		})
	})
	both := func(x *lbTest) {
		join(x)
		x.ensure(second)
	}
	t.Run("second leaves", func(t *testing.T) {
		crashEverywhere(t, managed, both, remove(ofSecond), func(x *lbTest) { end(x, ofSecond, ofFirst) })
	})
	t.Run("owner leaves", func(t *testing.T) {
		crashEverywhere(t, managed, both, remove(ofFirst), func(x *lbTest) { end(x, ofFirst, ofSecond) })
	})
}

// TestCrashOfDualStack: both families, with groups.
func TestCrashOfDualStack(t *testing.T) {
	x := newDualStackTest(t, 2, managed)
	for _, after := range []bool{false, true} {
		for n := 1; ; n += cutsApart {
			c := &cutter{n: n, after: after}
			x.spec.Settings, x.spec.CurrentIngress = cloud.Settings{}, nil
			stop := x.sim.OnMutation(c.hook)
			err := tryEnsure(x)
			stop()
			if c.cut != "" && err == nil {
				t.Errorf("call %d after=%v: the operation succeeded although %s was cut off", n, after, c.cut)
			}
			x.restart()
			retry(t, func() error { return tryEnsure(x) })
			if got := len(x.spec.CurrentIngress); got != 2 {
				t.Errorf("call %d after=%v: %d addresses, want 2", n, after, got)
			}
			x.restart()
			retry(t, func() error { return x.lbs.Delete(testContext(t), x.spec) })
			x.wantNothing("after the deletion")
			if c.cut == "" {
				break
			}
		}
	}
}
