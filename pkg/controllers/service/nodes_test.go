package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

func taint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// Which Nodes are members is what it is with the framework's controller.
func TestEligibleNodes(t *testing.T) {
	noAddress := func(n *corev1.Node) { n.Status.Addresses = nil }
	tests := []struct {
		name   string
		change []func(*corev1.Node)
		want   bool
		acts   bool // the change takes effect by itself
	}{
		{"plain", nil, true, false},
		{"not ready", []func(*corev1.Node){func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}}, true, false},
		{"excluded", []func(*corev1.Node){label(corev1.LabelNodeExcludeBalancers, "true")}, false, true},
		{"excluded without a value", []func(*corev1.Node){label(corev1.LabelNodeExcludeBalancers, "")}, false, true},
		{"not excluded", []func(*corev1.Node){label(corev1.LabelNodeExcludeBalancers, "false")}, true, true},
		{"to be deleted by the autoscaler", []func(*corev1.Node){taint("ToBeDeletedByClusterAutoscaler")}, false, false},
		{"being deleted", []func(*corev1.Node){func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }}, false, false},
		{"another taint", []func(*corev1.Node){taint("example.org/x")}, true, false},
		{"new, without addresses", []func(*corev1.Node){taint(taintUninitialized), noAddress}, false, true},
		{"new, with addresses", []func(*corev1.Node){taint(taintUninitialized)}, true, true},
		{"without a provider ID", []func(*corev1.Node){func(n *corev1.Node) { n.Spec.ProviderID = "" }}, true, true},
		{"another address", []func(*corev1.Node){func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.9" }}, true, true},
		{"another label", []func(*corev1.Node){label("pool", "web")}, true, true},
		{"heartbeat", []func(*corev1.Node){func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "X"}}
			n.ResourceVersion = "7"
		}}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := node("n", nil), node("n", nil)
			for _, change := range tt.change {
				change(after)
			}
			if got := lb.Excluded(after, testProvider.LoadBalancing.Reach) == ""; got != tt.want {
				t.Errorf("eligible: %t", got)
			}
			w := newWorld(t, nil)
			w.setNodes(before)
			if _, err := w.c.nodes.current(); err != nil {
				t.Fatal(err)
			}
			w.c.nodes.handler().OnUpdate(before, after)
			if acts := len(w.c.nodes.signal) > 0; acts != tt.acts {
				t.Errorf("takes effect by itself: %t", acts)
			}
			if !tt.want && !w.c.nodes.stale {
				t.Error("the Node is still a candidate at the next update")
			}
		})
	}
}

// queued returns the Services that wait for a worker, sorted.
func (w *world) queued() []string {
	out := []string{}
	for w.c.queue.Len() > 0 {
		key, _ := w.c.queue.Get()
		w.c.queue.Done(key)
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func (w *world) nodePass() []string {
	w.t.Helper()
	if err := w.c.nodePass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.queued()
}

// A change of Nodes concerns only the Services whose selectors it changes the outcome of.
func TestNodePassFindsWhomItConcerns(t *testing.T) {
	w := newWorld(t, nil)
	web, db := label("pool", "web"), label("pool", "db")
	w.setNodes(node("web1", web), node("db1", db))
	for name, selector := range map[string]string{"all": "", "web": "pool=web", "db": "pool in (db, cache)", "not-web": "pool!=web"} {
		w.create(service(name, func(s *corev1.Service) { s.Annotations["lb.example.org/nodes"] = selector }))
		w.sync(name)
	}
	w.cloud.take()
	for _, step := range []struct {
		name  string
		nodes []*corev1.Node
		want  []string
	}{
		{"nothing", []*corev1.Node{node("web1", web), node("db1", db)}, []string{}},
		{"a label that no selector names", []*corev1.Node{node("web1", func(n *corev1.Node) { web(n); label("x", "y")(n) }), node("db1", db)}, []string{}},
		{"a node joins", []*corev1.Node{node("web1", web), node("web2", web), node("db1", db)}, []string{"default/all", "default/web"}},
		{"a label changes", []*corev1.Node{node("web1", web), node("web2", db), node("db1", db)}, []string{"default/db", "default/not-web", "default/web"}},
		{"a node goes", []*corev1.Node{node("web1", web), node("web2", db)}, []string{"default/all", "default/db", "default/not-web"}},
	} {
		w.setNodes(step.nodes...)
		got := w.nodePass()
		if !slices.Equal(got, step.want) {
			t.Errorf("%s concerns %v, want %v", step.name, got, step.want)
		}
		for _, key := range got {
			w.sync(key[len("default/"):])
		}
		if calls := w.cloud.take(); len(calls) != len(step.want) {
			t.Errorf("%s: calls %q", step.name, calls)
		}
	}
	w.events()
}

// A selector that selects none is looked at again when the first Node comes, without which a load
// balancer may not be made: another one that it does not select is no reason.
func TestFirstNodeConcernsASelectorThatSelectsNone(t *testing.T) {
	w := newWorld(t, nil)
	w.create(service("web", func(s *corev1.Service) { s.Annotations["lb.example.org/nodes"] = "pool=web" }))
	w.sync("web")
	for _, step := range []struct {
		nodes []*corev1.Node
		want  []string
	}{
		{[]*corev1.Node{node("n1", nil)}, []string{"default/web"}},
		{[]*corev1.Node{node("n1", nil), node("n2", nil)}, []string{}},
	} {
		w.setNodes(step.nodes...)
		if got := w.nodePass(); !slices.Equal(got, step.want) {
			t.Errorf("%d Nodes concern %v, want %v", len(step.nodes), got, step.want)
		}
		w.sync("web")
	}
}

// A Node that was about to go and stays gets traffic again without any other change: the
// autoscaler takes its taint back when the pods need the Node after all.
func TestNodeReturnsWhenItsTaintIsTakenBack(t *testing.T) {
	w := settled(t, nil)
	plain, doomed := node("n2", nil), node("n2", taint("ToBeDeletedByClusterAutoscaler"))
	w.setNodes(node("n1", nil), doomed)
	w.c.nodes.handler().OnUpdate(plain, doomed)
	if len(w.c.nodes.signal) > 0 {
		t.Error("the taint takes effect by itself")
	}
	w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")

	w.setNodes(node("n1", nil), plain)
	w.c.nodes.handler().OnUpdate(doomed, plain)
	if len(w.c.nodes.signal) == 0 {
		t.Error("the Node that stays waits for another change")
	}
	if got := w.nodePass(); !slices.Equal(got, []string{"default/web"}) {
		t.Errorf("it concerns %v", got)
	}
	w.sync("web")
	w.wantCalls("update web [n1 n2]")
}

func TestMembersChange(t *testing.T) {
	grown := []*corev1.Node{node("n1", nil), node("n2", nil), node("n3", nil)}
	t.Run("only they", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes(grown...)
		w.sync("web")
		w.sync("web")
		w.wantCalls("update web [n1 n2 n3]")
		w.wantEvents("Normal UpdatedLoadBalancer Updated load balancer with new hosts")
		w.wantPatches(0)
	})
	t.Run("and the Service, too", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes(grown...)
		w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [n1 n2 n3]")
	})
	t.Run("none is left", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes()
		w.sync("web")
		w.wantCalls("update web []")
		w.wantEvents("Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer")
	})
	t.Run("the load balancer is gone", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes(grown...)
		w.cloud.update = func(context.Context, *cloud.LoadBalancerSpec) error { return cloud.Errorf(cloud.KindNotFound, "gone") }
		w.sync("web")
		w.wantCalls("update web [n1 n2 n3]", "ensure web uid web-1 [n1 n2 n3]")
		w.wantEvents("Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	})
	t.Run("the cloud needs time", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes(grown...)
		w.cloud.update = func(context.Context, *cloud.LoadBalancerSpec) error {
			return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 3 * time.Second, Err: errors.New("PENDING_UPDATE")}
		}
		if again := w.sync("web"); again != 3*time.Second {
			t.Errorf("looked at again after %s", again)
		}
		w.wantEvents() // a wait that is short is no news
		// Some members may be there already: the old set is no longer known to be the cloud's.
		w.setNodes(grown[:2]...)
		w.cloud.update = nil
		w.clock.Step(3 * time.Second)
		w.sync("web")
		w.wantCalls("update web [n1 n2 n3]", "update web [n1 n2]")
	})
	t.Run("it fails", func(t *testing.T) {
		w := settled(t, nil)
		w.setNodes(grown...)
		w.cloud.update = func(context.Context, *cloud.LoadBalancerSpec) error { return errors.New("no route to host") }
		again := w.sync("web")
		w.wantEvents("Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts: no route to host")
		w.sync("web")
		w.clock.Step(again)
		w.sync("web")
		w.wantCalls("update web [n1 n2 n3]", "ensure web uid web-1 [n1 n2 n3]")
	})
}

// Drift is repaired: each load balancer is read afresh once in a period.
func TestComplaint1597DriftIsRepairedPeriodically(t *testing.T) {
	w := settled(t, nil)
	w.clock.Step(29 * time.Minute)
	w.sync("web")
	w.wantCalls()
	w.clock.Step(31 * time.Minute)
	if again := w.sync("web"); again < 30*time.Minute || again > time.Hour {
		t.Errorf("verified again after %s", again)
	}
	w.wantCalls("ensure web uid web-1 [n1 n2] verify")
	w.wantEvents() // nothing has happened

	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		s := statusOf(spec)
		s.Repaired = []string{"listener 80 was gone", "member n1 was gone"}
		return s, nil
	}
	w.clock.Step(time.Hour)
	w.sync("web")
	w.wantEvents("Warning RepairedLoadBalancer Others had changed the load balancer, put right: listener 80 was gone; member n1 was gone")
	w.wantCalls("ensure web uid web-1 [n1 n2] verify")

	// What is put right together with a change of ours is not known to be others' doing.
	w.clock.Step(time.Hour)
	w.setNodes(node("n1", nil))
	w.sync("web")
	w.wantEvents()
	w.wantCalls("ensure web uid web-1 [n1] verify")
	w.setNodes(node("n1", nil), node("n2", nil))
	w.sync("web")
	w.wantCalls("update web [n1 n2]")

	// Verification is not over before it has succeeded, and covers changes of members.
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		return nil, errors.New("no")
	}
	w.clock.Step(time.Hour)
	again := w.sync("web")
	w.cloud.ensure = nil
	w.clock.Step(again)
	w.setNodes(node("n1", nil))
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1 n2] verify", "ensure web uid web-1 [n1] verify")

	// Changes in between do not put it off.
	for i := range 6 {
		w.clock.Step(10 * time.Minute)
		w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(100 + i) })
		w.sync("web")
	}
	if calls := w.cloud.take(); !slices.Contains(calls, "ensure web uid web-1 [n1] verify") {
		t.Errorf("never verified: %q", calls)
	}
}

func TestVerificationCanBeTurnedOff(t *testing.T) {
	w := settled(t, func(c *Config) { c.SyncPeriod = 0 })
	w.clock.Step(1000 * time.Hour)
	if again := w.sync("web"); again != 0 {
		t.Errorf("looked at again after %s", again)
	}
	w.wantCalls()
}

// The load is spread: what was made at the same time is not verified at the same time.
func TestVerificationIsSpread(t *testing.T) {
	w := newWorld(t, nil)
	var waits []time.Duration
	for i := range 200 {
		name := fmt.Sprint("s", i)
		w.create(service(name, nil))
		waits = append(waits, w.sync(name))
	}
	slices.Sort(waits)
	if waits[0] < 30*time.Minute || waits[199] > time.Hour || waits[100]-waits[10] < 8*time.Minute || waits[190]-waits[100] < 8*time.Minute {
		t.Errorf("verified between %s and %s, the middle at %s", waits[0], waits[199], waits[100])
	}
}
