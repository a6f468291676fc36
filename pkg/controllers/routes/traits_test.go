package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// toInstance is a route to the instance of that name.
func toInstance(destination, instance string) cloud.Route {
	return cloud.Route{Destination: netip.MustParsePrefix(destination), Target: "fake://" + instance}
}

func blackhole(destination string) cloud.Route { return testRoute(destination, "") }

// ownsFake is a cloud's Owns.
func ownsFake(n *corev1.Node) bool {
	return n.Spec.ProviderID == "" || strings.HasPrefix(n.Spec.ProviderID, "fake://")
}

// instanceNode is a Node with that provider ID.
func instanceNode(name, id string, podCIDRs ...string) *corev1.Node {
	n := testNode(name, podCIDRs, "10.0.0.1")
	n.Spec.ProviderID = id
	return n
}

// A cloud where a destination has one route, to an instance: what becomes of one route of the
// cloud, and of the Node a, whose pod CIDR is 10.244.1.0/24.
func TestPlanWhereADestinationHasOneHop(t *testing.T) {
	nodes := []*corev1.Node{
		instanceNode("a", "fake://a", "10.244.1.0/24"),
		instanceNode("b", "fake://b"),
		instanceNode("new", "", "10.244.5.0/24"),
		instanceNode("other cloud's", "other://c", "10.244.6.0/24"),
	}
	const add = "10.244.1.0/24 via fake://a"
	for _, tt := range []struct {
		name                    string
		route                   cloud.Route
		known                   cloud.Route
		adds, removes, conflict bool
	}{
		{name: "fits", route: ours(toInstance("10.244.1.0/24", "a"))},
		{name: "ours to another instance is replaced", route: ours(toInstance("10.244.1.0/24", "b")), adds: true},
		{name: "somebody else's to another node goes first", route: toInstance("10.244.1.0/24", "b"), adds: true, removes: true},
		{name: "somebody else's to no node is in the way", route: toInstance("10.244.1.0/24", "x"), conflict: true},
		{name: "a blackhole is replaced, whoever made it", route: blackhole("10.244.1.0/24"), adds: true},
		{name: "our blackhole is replaced", route: ours(blackhole("10.244.1.0/24")), adds: true},
		{name: "the blackhole of an operator stays", route: blackhole("10.244.9.0/24"), adds: true},
		{name: "the blackhole that a node's route has become goes", route: blackhole("10.244.9.0/24"), known: toInstance("10.244.9.0/24", "x"), adds: true, removes: true},
		{name: "our blackhole to no node goes", route: ours(blackhole("10.244.9.0/24")), adds: true, removes: true},
		{name: "the route of a node without a provider ID stays", route: ours(toInstance("10.244.5.0/24", "x")), adds: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known := map[path]bool{}
			if tt.known.Destination.IsValid() {
				known[pathOf(tt.known)] = true
			}
			p := makePlan([]cloud.Route{tt.route}, nodes, known, routing{cloud.RouteTraits{ToInstance: true, OneHop: true}, ownsFake})
			var want, removes []string
			if tt.adds {
				want = []string{add}
			}
			if diff := cmp.Diff(want, names(p.add)); diff != "" {
				t.Errorf("routes to add (-want +got):\n%s", diff)
			}
			if tt.removes {
				removes = names([]cloud.Route{tt.route})
			}
			if diff := cmp.Diff(removes, names(slices.Concat(p.remove, p.gone))); diff != "" {
				t.Errorf("routes to remove (-want +got):\n%s", diff)
			}
			if got := len(p.conflicts["a"]) > 0; got != tt.conflict || (p.problems["a"] != "") != tt.conflict {
				t.Errorf("conflict: %t, problem %q; want one: %t", got, p.problems["a"], tt.conflict)
			}
			if !strings.Contains(p.problems["new"], "no provider ID") || !p.stranger["other cloud's"] || p.problems["other cloud's"] != "" {
				t.Errorf("problems %q, strangers %v", p.problems, p.stranger)
			}
		})
	}
}

// Where a Node's hop changes, pods are reached by one of the routes at any time, if the table
// and the cloud allow that.
func TestNewHopIsMadeBeforeTheOldOneIsRemoved(t *testing.T) {
	const to, from, other = "+10.244.0.0/24>10.0.0.1", "-10.244.0.0/24>10.0.9.9", "-10.244.7.0/24>10.0.0.8"
	for _, tt := range []struct {
		name   string
		traits cloud.RouteTraits
		want   []string
	}{
		{"several hops", cloud.RouteTraits{}, []string{to + " " + other, from}},
		{"a table with room", cloud.RouteTraits{Max: 3}, []string{to + " " + other, from}},
		{"a full table", cloud.RouteTraits{Max: 2}, []string{from, to + " " + other}},
		{"one hop, so that it is replaced", cloud.RouteTraits{OneHop: true}, []string{to + " " + other}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 0, numberedNodes(0, 1), numberedNodes(0, 1))
			l.routing = routing{RouteTraits: tt.traits}
			for _, r := range []cloud.Route{ours(testRoute("10.244.0.0/24", "10.0.9.9")), ours(numberedRoute(7))} {
				l.cloud.routes[pathOf(r)] = r
			}
			l.pass(t.Context())
			if diff := cmp.Diff(tt.want, l.cloud.order); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// What somebody else's records lack goes before, where there is only one: two cannot be.
func TestRouteInTheWayIsRemovedFirst(t *testing.T) {
	nodes := []runtime.Object{instanceNode("a", "fake://a", "10.244.1.0/24"), instanceNode("b", "fake://b", "10.244.2.0/24")}
	l := newLab(t, 0, nodes, nodes)
	l.routing = routing{cloud.RouteTraits{ToInstance: true, OneHop: true}, ownsFake}
	for _, r := range []cloud.Route{toInstance("10.244.1.0/24", "b"), ours(toInstance("10.244.2.0/24", "b"))} {
		l.cloud.routes[pathOf(r)] = r
	}
	l.pass(t.Context())
	if diff := cmp.Diff([]string{"-10.244.1.0/24>fake://b", "+10.244.1.0/24>fake://a"}, l.cloud.order); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A full table is told of on the Nodes that it has no room for, and not tried in vain.
func TestFullTableIsToldOf(t *testing.T) {
	l := newLab(t, 2, numberedNodes(0, 4), numberedNodes(0, 4))
	l.routing.Max = 3
	for range 2 {
		l.pass(t.Context())
		if len(l.cloud.routes) != 3 {
			t.Errorf("%d routes, want 3", len(l.cloud.routes))
		}
	}
	if len(l.cloud.order) != 1 || !strings.HasPrefix(l.cloud.order[0], "+") || strings.Contains(l.cloud.order[0], " ") {
		t.Errorf("calls %q, want one for one route", l.cloud.order)
	}
	const want = "the route table is full: it holds 2 of at most 3 routes"
	if e := l.event(); !strings.Contains(e, eventFailed) || !strings.Contains(e, want) {
		t.Errorf("event %q, want one with %q", e, want)
	}
}
