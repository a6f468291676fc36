package octavia

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// cutter cuts the connection at the n-th changing call of Octavia or Neutron, before or
// after it is carried out, as a crash of the process between two calls would.
type cutter struct {
	mu    sync.Mutex
	n     int
	after bool
	seen  int
	cut   string
}

func (c *cutter) hook(m ossim.Mutation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Service != "load-balancer" && m.Service != "network" || m.After != c.after {
		return
	}
	if c.seen++; c.seen == c.n {
		c.cut = m.Method + " " + m.Path
		m.Drop()
	}
}

// crashEverywhere runs prepare and then step, again and again, cutting step off at its
// first, second, … changing call, until it is not cut off any more. After each cut a new
// process runs check.
func crashEverywhere(t *testing.T, conf string, prepare func(*lbTest), step func(*lbTest) error, check func(*lbTest)) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n += cutsApart {
			if n > 60 {
				t.Fatal("the operation never ends")
			}
			c := &cutter{n: n, after: after}
			name := fmt.Sprintf("call %d after=%v", n, after)
			t.Run(name, func(t *testing.T) {
				x := newLBTest(t, 3, conf)
				t.Cleanup(func() { logCalls(t, x.sim) })
				prepare(x)
				remove := x.sim.OnMutation(c.hook)
				err := step(x)
				remove()
				if c.cut != "" && err == nil {
					t.Errorf("the operation succeeded although %s was cut off", c.cut)
				}
				x.restart()
				check(x)
			})
			if c.cut == "" {
				if n == 1 {
					t.Fatal("the operation makes no changing call: the test checks nothing")
				}
				break
			}
		}
	}
}

// retry runs op until it is not told to come back, as the service controller does.
func retry(t *testing.T, op func() error) {
	t.Helper()
	for range 10 {
		err := op()
		if err == nil {
			return
		}
		if cloud.KindOf(err) != cloud.KindRetryAfter && cloud.KindOf(err) != cloud.KindConflict {
			t.Fatal(err)
		}
	}
	t.Fatal("the operation never succeeds")
}

func tryEnsure(x *lbTest) error {
	status, err := x.lbs.Ensure(testContext(x.t), x.spec)
	if err == nil {
		publish(x.spec, status)
	}
	return err
}

func TestCrashWhileCreating(t *testing.T) {
	for _, conf := range []string{"create-monitor=true\n", "lb-provider=ovn\ncreate-monitor=true\n", "provider-requires-serial-api-calls=true\ncreate-monitor=true\n"} {
		t.Run(conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(*lbTest) {}, tryEnsure, func(x *lbTest) {
				retry(x.t, func() error { return tryEnsure(x) })
				x.wantConverged(x.spec, x.lbs.cfg.LoadBalancer.Provider)
				if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
					x.t.Errorf("%d floating IPs, want 1", n)
				}
				retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
				x.wantNothing("after the deletion")
			})
		})
	}
}

// TestCrashWhileCreatingThenDeleted: a Service whose creation was cut off is deleted before
// it ever had an address.
func TestCrashWhileCreatingThenDeleted(t *testing.T) {
	crashEverywhere(t, "", func(*lbTest) {}, tryEnsure, func(x *lbTest) {
		retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
		x.wantNothing("after the deletion")
	})
}

func TestCrashWhileUpdating(t *testing.T) {
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			crashEverywhere(t, "lb-provider="+provider+"\n", func(x *lbTest) {
				x.ensure(x.spec)
				x.spec.Members = slices.Clone(x.all[1:])
				x.spec.Ports[0].Port, x.spec.Ports[1].NodePort = 8080, 31053
				x.spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
				if provider == "amphora" {
					x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
					x.spec.Settings[plan.AnnProxyProtocol] = "true"
				}
			}, tryEnsure, func(x *lbTest) {
				retry(x.t, func() error { return tryEnsure(x) })
				x.wantConverged(x.spec, provider)
				if n := len(x.sim.Snapshot().Pools); n != 2 {
					x.t.Errorf("%d pools, want 2", n)
				}
				retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
				x.wantNothing("after the deletion")
			})
		})
	}
}

func TestCrashWhileDeleting(t *testing.T) {
	for _, conf := range []string{"", "cascade-delete=false\ncreate-monitor=true\n", "lb-provider=ovn\ncascade-delete=false\ncreate-monitor=true\n"} {
		t.Run(conf, func(t *testing.T) {
			crashEverywhere(t, conf, func(x *lbTest) { x.ensure(x.spec) }, func(x *lbTest) error {
				return x.lbs.Delete(testContext(x.t), x.spec)
			}, func(x *lbTest) {
				retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
				x.wantNothing("after the deletion")
			})
		})
	}
}
