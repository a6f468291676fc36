package routes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestPassFollowsWhatRoutesDependOn(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":      {func(*corev1.Node) {}, false},
		"labels":       {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"pod CIDR":     {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.9.0/24"} }, true},
		"provider ID":  {func(n *corev1.Node) { n.Spec.ProviderID = "fake://1" }, true},
		"address":      {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.9" }, true},
		"initialized":  {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"other taints": {func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other"}) }, false},
	} {
		changed := make(chan struct{}, 1)
		before := numbered(1)
		before.Spec.Taints = []corev1.Taint{{Key: taintUninitialized}}
		now := before.DeepCopy()
		tt.change(now)
		handlers(changed).OnUpdate(before, now)
		if got := len(changed) == 1; got != tt.want {
			t.Errorf("%s changes: pass %t, want %t", name, got, tt.want)
		}
	}
}

func TestEventIsRepeatedAfterAWhile(t *testing.T) {
	l := newLab(t, 0, nil, nil)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {repeatAfter - 1, false}, {1, true}, {1, false}} {
		l.now.SetTime(l.now.Now().Add(step.after))
		l.report(numbered(1), eventFailed, "why")
		if got := l.event() != ""; got != step.want {
			t.Errorf("%s later: told %t, want %t", step.after, got, step.want)
		}
	}
}

// A cloud that does not say what routes it has is no cloud without routes.
func TestNothingIsChangedWhileRoutesCannotBeListed(t *testing.T) {
	l := newLab(t, 0, numberedNodes(0, 2), numberedNodes(0, 2))
	l.cloud.down = errors.New("down")
	l.pass(t.Context())
	if _, calls := l.cloud.state(); calls != 0 || l.event() != "" || len(l.status.wanted) != 0 {
		t.Errorf("%d calls, conditions %v: want nothing", calls, l.status.wanted)
	}
	l.cloud.down = nil
	if l.pass(t.Context()); len(l.cloud.routes) != 2 {
		t.Errorf("%d routes afterwards, want 2", len(l.cloud.routes))
	}
}

func TestConditionMustHaveStatusAndReason(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.NodeCondition)
		want   bool
	}{
		"as written":   {func(*corev1.NodeCondition) {}, true},
		"other words":  {func(c *corev1.NodeCondition) { c.Message = "x" }, true},
		"other status": {func(c *corev1.NodeCondition) { c.Status = corev1.ConditionUnknown }, false},
		"other reason": {func(c *corev1.NodeCondition) { c.Reason = "CiliumIsUp" }, false},
		"other type":   {func(c *corev1.NodeCondition) { c.Type = corev1.NodeReady }, false},
	} {
		c := condition(true)
		tt.change(&c)
		if got := says(&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c}}}, true); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// What Run has begun has ended when Run has: nobody writes after the lease is another's.
func TestRunWaitsForConditionsThatAreBeingWritten(t *testing.T) {
	l := newLab(t, 1, numberedNodes(0, 1), numberedNodes(0, 1))
	writing, release := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let)
	l.live.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(writing)
		<-release
		return true, numbered(0), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	<-writing
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("Run has ended while a condition is being written: %v", err)
	case <-time.After(100 * time.Millisecond): // as long as it would take
	}
	let()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
