package routes

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
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

// A Node's old route stays while the new one cannot be made, or waits for its turn: pods may be reached by it.
func TestOldHopStaysUntilTheNewOneIsThere(t *testing.T) {
	const nodes = changeAtOnce + 1 // the last one has to wait
	for name, traits := range map[string]cloud.RouteTraits{"a table with room": {}, "a full table": {Max: nodes + 1}, "one hop": {OneHop: true}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 0, numberedNodes(0, nodes), numberedNodes(0, nodes))
			l.routing = routing{RouteTraits: traits, owns: ownsFake}
			old := func(n int) cloud.Route { return testRoute(numberedRoute(n).Destination.String(), "10.0.0.250") }
			for n := range nodes {
				r := ours(old(n))
				if traits.OneHop { // somebody else's, to a Node, is not replaced
					r = testRoute(r.Destination.String(), numberedRoute((n+1)%nodes).NextHop.String())
				}
				l.cloud.routes[pathOf(r)] = r
			}
			l.cloud.refuse = true
			l.pass(t.Context())
			want := nodes
			if traits.Max > 0 || traits.OneHop { // there is no room for both
				want = 1
			}
			if got := len(l.cloud.routes); got != want {
				t.Errorf("%d old routes are left where no new one could be made, want %d", got, want)
			}
			l.cloud.refuse = false
			for range 3 {
				l.pass(t.Context())
			}
			for n := range nodes {
				if _, ok := l.cloud.routes[pathOf(numberedRoute(n))]; !ok {
					t.Errorf("the route to node %d is missing", n)
				}
			}
			if got := len(l.cloud.routes); got != nodes || l.more {
				t.Errorf("%d routes at the end, and more to do: %t, want %d", got, l.more, nodes)
			}
		})
	}
}

// A pass that can change nothing does not begin the next one at once.
func TestOldHopThatHasToStayMakesNoHaste(t *testing.T) {
	l := newLab(t, 0, numberedNodes(0, 1), numberedNodes(0, 1))
	r := ours(testRoute(numberedRoute(0).Destination.String(), "10.0.9.9"))
	l.cloud.routes[pathOf(r)], l.cloud.refuse = r, true
	if l.pass(t.Context()); l.more || len(l.cloud.routes) != 1 {
		t.Errorf("%d routes, more to do: %t", len(l.cloud.routes), l.more)
	}
}

// What nobody but an operator can mend is told of on the Node, with what to do.
func TestQuotaAndBrokenRoutesAreToldOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{cloud.Errorf(cloud.KindQuota, "30 routes of 30"), "30 routes of 30; make room in the route table or raise the quota, it is tried again every 1h0m0s"},
		{cloud.Errorf(cloud.KindFailed, "router r is in state ERROR"), "router r is in state ERROR; mend it in the cloud, it is tried again every 1h0m0s"},
		{cloud.Errorf(cloud.KindUnavailable, "503"), "503"},
	} {
		t.Run(cloud.KindOf(tt.err).String(), func(t *testing.T) {
			l := newLab(t, 0, numberedNodes(0, 3), numberedNodes(0, 3))
			l.cloud.fail = tt.err
			// Node 0 has no route, node 1 its own and one to another Node, and node 2 one without a record.
			for _, r := range []cloud.Route{ours(numberedRoute(1)), testRoute("10.244.1.0/24", "10.0.0.1"), numberedRoute(2)} {
				l.cloud.routes[pathOf(r)] = r
			}
			l.pass(t.Context())
			l.adopt(t.Context(), makePlan([]cloud.Route{numberedRoute(2)}, []*corev1.Node{numbered(2)}, l.known, l.routing))
			want := []string{"Warning FailedToCreateRoute Could not create route to 10.244.0.0/24 via 10.0.0.1: " + tt.want}
			if cloud.KindOf(tt.err) != cloud.KindUnavailable {
				want = append(want, "Warning FailedToDeleteRoute Could not delete route to 10.244.1.0/24 via 10.0.0.1, which does not lead to the Node: "+tt.want,
					"Warning FailedToRecordRoute Could not record the route to 10.244.2.0/24 via 10.0.0.3 as the cluster's, without which it stays when the Node is gone: "+tt.want)
			}
			var got []string
			for e := l.event(); e != ""; e = l.event() {
				got = append(got, e)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A quota and a broken router are not asked again and again, and told of once; other failures are tried in each pass.
func TestWhatSomebodyHasToMendIsTriedSeldom(t *testing.T) {
	for _, tt := range []struct {
		err   error
		calls []int // of passes one minute apart, the sixth after repeatAfter
	}{
		{cloud.Errorf(cloud.KindQuota, "30 routes of 30"), []int{1, 1, 1, 1, 1, 2}},
		{cloud.Errorf(cloud.KindFailed, "router r is in state ERROR"), []int{1, 1, 1, 1, 1, 2}},
		{cloud.Errorf(cloud.KindUnavailable, "503"), []int{1, 2, 3, 4, 5, 6}},
	} {
		t.Run(cloud.KindOf(tt.err).String(), func(t *testing.T) {
			l := newLab(t, 0, numberedNodes(0, 2), numberedNodes(0, 2))
			l.cloud.fail = tt.err
			for n, want := range tt.calls {
				if n > 0 {
					l.now.SetTime(l.now.Now().Add(time.Minute))
				}
				l.pass(t.Context())
				if got := len(l.cloud.order); got != want {
					t.Fatalf("%d calls in %d passes, want %d: %v", got, n+1, want, l.cloud.order)
				}
				if want, known := l.status.wanted["node-0"]; want || !known || l.more {
					t.Fatalf("pass %d: complete %t, known %t, more to do %t", n+1, want, known, l.more)
				}
			}
			told := 0
			for e := l.event(); e != ""; e = l.event() {
				told++
			}
			if told != 4 { // two Nodes, at once and after repeatAfter
				t.Errorf("%d events, want 4", told)
			}
			l.cloud.fail = nil
			l.now.SetTime(l.now.Now().Add(repeatAfter))
			if l.pass(t.Context()); len(l.cloud.routes) != 2 || len(l.refused) != 0 {
				t.Errorf("%d routes once it is mended, %d refused", len(l.cloud.routes), len(l.refused))
			}
		})
	}
}

// A route that is refused keeps no other one waiting, and a removal makes room at once.
func TestRefusedRouteWaitsAlone(t *testing.T) {
	l := newLab(t, 0, numberedNodes(0, 2), numberedNodes(0, 2))
	l.cloud.fail = cloud.Errorf(cloud.KindQuota, "full")
	if l.change(t.Context(), &plan{add: []cloud.Route{numberedRoute(0)}}); len(l.refused) != 1 {
		t.Fatalf("refused: %v", l.refused)
	}
	l.cloud.fail = nil
	out := l.change(t.Context(), &plan{add: []cloud.Route{numberedRoute(0), numberedRoute(1)}})
	if len(l.cloud.routes) != 1 || cloud.KindOf(out.failed[pathOf(numberedRoute(0))]) != cloud.KindQuota || len(out.failed) != 1 {
		t.Errorf("%d routes, failed: %v", len(l.cloud.routes), out.failed)
	}
	l.change(t.Context(), &plan{remove: []cloud.Route{numberedRoute(1)}})
	if out = l.change(t.Context(), &plan{add: []cloud.Route{numberedRoute(0)}}); len(out.failed) != 0 || len(l.cloud.routes) != 1 {
		t.Errorf("%d routes after one went, failed: %v", len(l.cloud.routes), out.failed)
	}
}

// The old route stays while the one that is to take its place is refused, however often it is looked at.
func TestOldHopStaysWhileTheNewRouteIsRefused(t *testing.T) {
	l := newLab(t, 0, numberedNodes(0, 1), numberedNodes(0, 1))
	old := ours(testRoute(numberedRoute(0).Destination.String(), "10.0.9.9"))
	l.cloud.routes[pathOf(old)], l.cloud.fail = old, cloud.Errorf(cloud.KindFailed, "broken")
	l.pass(t.Context())
	l.cloud.fail = nil
	if l.pass(t.Context()); len(l.cloud.routes) != 1 || l.cloud.routes[pathOf(old)].NextHop != old.NextHop {
		t.Errorf("routes %v, want the old one", l.cloud.routes)
	}
	l.now.SetTime(l.now.Now().Add(repeatAfter))
	for range 2 {
		l.pass(t.Context())
	}
	if _, ok := l.cloud.routes[pathOf(numberedRoute(0))]; !ok || len(l.cloud.routes) != 1 {
		t.Errorf("routes %v, want the new one", l.cloud.routes)
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
	l.guard.Limits = deletionguard.Limits{Count: 1, Settle: 10 * time.Minute}
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
