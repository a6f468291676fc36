package routes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

func TestGuardEvaluate(t *testing.T) {
	usual := Guard{Limits: deletionguard.Limits{Count: 3, Percent: 45, Settle: time.Minute}}
	off := Guard{Limits: deletionguard.Limits{Count: 3, Percent: 100}}
	for _, test := range []struct {
		name   string
		guard  Guard
		loss   loss
		lasted time.Duration
		want   string
	}{
		{"nothing is gone", usual, loss{0, 10}, 0, ""},
		{"there is nothing", usual, loss{0, 0}, 0, ""},
		{"the last one", usual, loss{1, 0}, 0, ""},
		{"both of two", usual, loss{2, 0}, 0, "not one of the 2 routes leads to a node"},
		{"all three, for long", usual, loss{3, 0}, time.Minute, "not one of the 3 routes leads to a node"},
		{"the count", usual, loss{3, 1}, 0, ""},
		{"the share", usual, loss{45, 55}, 0, ""},
		{"more than the share", usual, loss{46, 54}, 0, "46 of 100 routes lead to no node, more than the limit of 45"},
		{"more than the share, for long", usual, loss{46, 54}, time.Minute, ""},
		{"turned off", off, loss{100, 0}, 0, ""},
	} {
		if got := test.guard.evaluate(test.loss, test.lasted); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A Node of both families is one Node: its two routes are not two of two.
func TestGuardCountsByFamily(t *testing.T) {
	routes := []cloud.Route{ours(testRoute("10.244.1.0/24", "10.0.0.1")), ours(testRoute("fd00:0:0:1::/64", "fd00:1::1"))}
	p := makePlan(routes, nil, nil, routing{})
	if diff := cmp.Diff([2]loss{{1, 0}, {1, 0}}, p.losses(), cmp.AllowUnexported(loss{})); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	if reason := (&Guard{Limits: deletionguard.Limits{Count: 3, Percent: 45}}).judge(p, 0); reason != "" {
		t.Errorf("the last Node's routes are held: %s", reason)
	}
}

// An informer that lags behind the API server takes no route away: what counts is a live read.
// It needs no watch to know that a Node is gone.
func TestRouteStaysWhenTheInformerIsBehind(t *testing.T) {
	stale := numberedNodes(0, 4)
	moved, ok := stale[3].(*corev1.Node)
	if !ok {
		t.Fatal("not a Node")
	}
	moved.Spec.PodCIDRs = []string{"10.244.200.0/24"} // before it was made anew
	l := newLab(t, 6, numberedNodes(0, 6), stale)
	l.pass(t.Context())
	for n := range 6 {
		if _, ok := l.cloud.routes[pathOf(numberedRoute(n))]; !ok {
			t.Errorf("the route of node-%d is gone, which the API server has", n)
		}
	}
	if err := l.live.CoreV1().Nodes().Delete(t.Context(), "node-5", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := l.after(t.Context(), time.Second); got != 5 {
		t.Errorf("%d routes, want those of the 5 Nodes that are left", got)
	}
}

// Without a live read nothing is removed, and what is missing is made all the same.
func TestRouteStaysWhenNodesCannotBeRead(t *testing.T) {
	nodes := numberedNodes(0, 3)
	l := newLab(t, 4, nodes, nodes)
	delete(l.cloud.routes, pathOf(numberedRoute(0)))
	l.live.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("500") })
	if got := l.after(t.Context(), 0); got != 4 {
		t.Errorf("%d routes, want the one that was missing and the one that leads to no Node", got)
	}
}

// A loss beyond the limit is held: told once, counted, and believed when it lasts. What is no
// loss goes on meanwhile.
func TestManyRoutesAreHeld(t *testing.T) {
	nodes := numberedNodes(0, 5)
	l := newLab(t, 10, append(nodes, numbered(20)), append(nodes, numbered(20)))
	wrong := testRoute("10.244.0.0/24", "10.0.0.2") // a Node's pod CIDR to another Node
	l.cloud.routes[pathOf(wrong)] = wrong
	ctx := t.Context()
	if got := l.after(ctx, 0); got != 11 {
		t.Errorf("%d routes, want 10, and that of the new Node, without the wrong one", got)
	}
	if _, ok := l.cloud.routes[pathOf(wrong)]; ok {
		t.Error("the wrong route is there still")
	}
	if e := l.event(); !strings.Contains(e, "Warning RouteRemovalHeld 5 routes that lead to no Node are kept: 5 of 10 routes lead to no node, more than the limit of 4. Say so.") {
		t.Errorf("event %q", e)
	}
	for range 9 {
		if got := l.after(ctx, time.Minute); got != 11 || l.event() != "" {
			t.Errorf("%d routes, want 11, and no further event", got)
		}
	}
	if got := l.after(ctx, time.Minute); got != 6 {
		t.Errorf("%d routes after 10 minutes, want those of the 6 Nodes", got)
	}
	if e := l.event(); !strings.Contains(e, "Normal RouteRemovalResumed") {
		t.Errorf("event %q", e)
	}
}

// Routes none of which leads to a Node are held until an operator says so, however long; it is
// said again from time to time, and what is wrong with the operator's word, too.
func TestAllRoutesAreHeldUntilAnOperatorSaysSo(t *testing.T) {
	l := newLab(t, 3, nil, nil)
	confirmed, problem := false, ""
	l.guard.Operator = func(context.Context) deletionguard.Operator {
		return deletionguard.Operator{Confirmed: confirmed, Problem: problem}
	}
	ctx := t.Context()
	if got := l.after(ctx, 0); got != 3 || !strings.Contains(l.event(), "not one of the 3 routes leads to a node. Say so.") {
		t.Errorf("%d routes, want 3", got)
	}
	problem = "that is no time"
	if got := l.after(ctx, time.Hour); got != 3 || !strings.Contains(l.event(), "leads to a node; that is no time. Say so.") {
		t.Errorf("%d routes, want 3", got)
	}
	confirmed, problem = true, ""
	if got := l.after(ctx, time.Second); got != 0 { // the word is looked up in each pass
		t.Errorf("%d routes are left", got)
	}
}

// While routes are held, Nodes are not read live in each pass.
func TestHeldRoutesCostFewLiveReads(t *testing.T) {
	l := newLab(t, 3, nil, nil)
	reads := 0
	l.live.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) { reads++; return false, nil, nil })
	for range 13 {
		l.after(t.Context(), 10*time.Second)
	}
	if reads != 3 {
		t.Errorf("%d live reads in two minutes, want 3", reads)
	}
}

// Many routes are made in parts, and each part's Nodes have their network before the next part.
func TestManyRoutesAreMadeInParts(t *testing.T) {
	nodes := numberedNodes(0, 250)
	l := newLab(t, 0, nodes, nodes)
	for _, want := range []struct {
		there int
		more  bool
	}{{100, true}, {200, true}, {250, false}} {
		if got := l.after(t.Context(), 0); got != want.there || l.more != want.more {
			t.Errorf("%d routes, more %t; want %d, %t", got, l.more, want.there, want.more)
		}
		complete := 0
		for _, is := range l.status.wanted {
			if is {
				complete++
			}
		}
		if complete != want.there {
			t.Errorf("%d Nodes have their network, want %d", complete, want.there)
		}
	}
}

// Routes that always fail do not keep others from their turn, nor each other.
func TestFailingRoutesTakeTurns(t *testing.T) {
	nodes := numberedNodes(0, 240)
	l := newLab(t, 0, nodes, nodes)
	l.cloud.refuse = true
	var more []bool
	for range 12 {
		l.pass(t.Context())
		more = append(more, l.more)
	}
	for n := range 240 {
		if got := l.cloud.attempt[pathOf(numberedRoute(n))]; got != 5 {
			t.Errorf("route %d was tried %d times in 12 passes of 100, want 5", n, got)
		}
	}
	if diff := cmp.Diff("[true true false false]", fmt.Sprint(more[:4])); diff != "" {
		t.Errorf("passes that begin at once (-want +got):\n%s", diff)
	}
	l.cloud.refuse = false
	for range 3 {
		l.pass(t.Context())
	}
	if len(l.failures) != 0 || len(l.cloud.routes) != 240 {
		t.Errorf("%d routes; remembered are %d failures", len(l.cloud.routes), len(l.failures))
	}
}

// A route that was made and has no record yet goes with its Node all the same.
func TestRouteGoesWithItsNodeWithoutARecord(t *testing.T) {
	nodes := numberedNodes(0, 3)
	l := newLab(t, 2, nodes, nodes)
	l.pass(t.Context())
	at := pathOf(numberedRoute(2))
	l.cloud.routes[at] = numberedRoute(2) // not Ours
	if err := l.live.CoreV1().Nodes().Delete(t.Context(), "node-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.nodes.Informer().GetStore().Delete(nodes[2]); err != nil {
		t.Fatal(err)
	}
	if got := l.after(t.Context(), 0); got != 2 {
		t.Errorf("%d routes, want 2", got)
	}
}
