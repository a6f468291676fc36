package routes

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// So many are removed in a pass, and the next one follows at once while there are more.
func TestRoutesAreRemovedAFewInAPass(t *testing.T) {
	const all = 2*changeAtOnce + 1
	l := newLab(t, 0, nil, nil)
	p := &plan{}
	for n := range all {
		r := testRoute("10.0.0.0/24", "10.0.0.1")
		r.Destination = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n / 256), byte(n), 0}), 24)
		l.cloud.routes[pathOf(r)], p.remove = r, append(p.remove, r)
	}
	for _, want := range []struct {
		left int
		more bool
	}{{all - changeAtOnce, true}, {all - 2*changeAtOnce, true}, {0, false}} {
		l.change(t.Context(), p)
		if len(l.cloud.routes) != want.left || l.more != want.more {
			t.Errorf("%d routes are left and more is to be done: %t, want %+v", len(l.cloud.routes), l.more, want)
		}
		p.remove = p.remove[min(changeAtOnce, len(p.remove)):]
	}
}

// curt is a provider that answers about fewer routes than it was asked about.
type curt struct {
	cloud.Routes
	answers int
}

func (c curt) Apply(context.Context, cloud.Cluster, []cloud.Route, []cloud.Route) []error {
	return make([]error, c.answers)
}

// What a provider does not answer about, or answers about too much, is not done.
func TestNothingIsDoneWhenAProviderGivesAnotherNumberOfAnswers(t *testing.T) {
	for answers, want := range map[int]bool{0: false, 1: false, 2: true, 3: false} {
		l := newLab(t, 0, nil, nil)
		l.routes = curt{answers: answers}
		add := []cloud.Route{numberedRoute(1), numberedRoute(2)}
		out := l.change(t.Context(), &plan{add: add})
		if done := len(out.failed) == 0; done != want || l.known[pathOf(add[0])] != want || (l.failures[pathOf(add[1])] == 0) != want {
			t.Errorf("%d answers to 2 questions: %v", answers, out.failed)
		}
	}
}

// A condition that could not be written is tried again, unless its Node is gone.
func TestConditionThatCannotBeWritten(t *testing.T) {
	for _, answer := range []error{nil, apierrors.NewNotFound(corev1.Resource("nodes"), "node-0"), errors.New("down")} {
		l := newLab(t, 1, numberedNodes(0, 1), numberedNodes(0, 1))
		l.live.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, numbered(0), answer })
		l.status.want("node-0", true)
		if err := l.status.write(t.Context(), "node-0"); (err != nil) != (answer != nil && !apierrors.IsNotFound(answer)) {
			t.Errorf("%v: %v", answer, err)
		}
	}
}

// A loss has lasted since it is there without a gap; what was mended meanwhile begins anew.
func TestLossBeginsAnewWhenItWasMended(t *testing.T) {
	l := newLab(t, 0, nil, nil)
	l.guard.Count, l.guard.Percent, l.guard.Settle = 1, 0, 10*time.Minute
	var all []cloud.Route
	for n := range 6 {
		all = append(all, ours(numberedRoute(n)))
	}
	nodes := func(n int) (out []*corev1.Node) {
		for k := range n {
			out = append(out, numbered(k))
		}
		return out
	}
	for _, step := range []struct {
		after       time.Duration
		nodes, want int // how many routes go
	}{
		{0, 3, 0}, {5 * time.Minute, 3, 0}, {time.Minute, 6, 0}, {5 * time.Minute, 3, 0}, {10*time.Minute - 1, 3, 0}, {1, 3, 3}, {0, 5, 1},
	} {
		l.now.SetTime(l.now.Now().Add(step.after))
		if got := l.removable(t.Context(), makePlan(all, nodes(step.nodes), nil, routing{})); len(got) != step.want {
			t.Errorf("%s later, with %d of 6 Nodes: %d routes go, want %d", step.after, step.nodes, len(got), step.want)
		}
	}
}
