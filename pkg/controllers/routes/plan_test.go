package routes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func testNode(name string, podCIDRs []string, internal ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	for _, a := range internal {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func testRoute(destination, hop string) cloud.Route {
	r := cloud.Route{Destination: netip.MustParsePrefix(destination)}
	if hop != "" {
		r.NextHop = netip.MustParseAddr(hop)
	}
	r.Blackhole = hop == ""
	return r
}

func ours(r cloud.Route) cloud.Route    { r.Ours = true; return r }
func partial(r cloud.Route) cloud.Route { r.Partial = true; return r }

func names(routes []cloud.Route) []string {
	var out []string
	for _, r := range routes {
		out = append(out, fmt.Sprintf("%s via %s", r.Destination, r.Hop()))
	}
	slices.Sort(out)
	return out
}

// What becomes of one route of the cloud.
func TestPlanOfOneRoute(t *testing.T) {
	nodes := []*corev1.Node{
		testNode("a", []string{"10.244.1.0/24", "FD00:0:0:1::/64"}, "10.0.0.1", "fd00:1::1"),
		testNode("b", []string{"10.244.002.0/24"}, "10.0.0.2", "10.9.0.2"),
		testNode("no-cidr", nil, "10.0.0.3"),
		testNode("no-address", []string{"10.244.5.0/24"}, "fd00:1::5"),
	}
	const keep, adopt, remove, leave, complete = "keep", "adopt", "remove", "leave", "complete"
	for _, test := range []struct {
		name     string
		route    cloud.Route
		known    bool
		want     string
		conflict string // the Node that gets the event
	}{
		{"fits", ours(testRoute("10.244.1.0/24", "10.0.0.1")), false, keep, ""},
		{"fits, of somebody else", testRoute("10.244.1.0/24", "10.0.0.1"), false, adopt, ""},
		{"fits in another spelling", ours(testRoute("fd00:0:0:1::/64", "fd00:1::1")), false, keep, ""},
		{"fits in an old spelling and by the second address", ours(testRoute("10.244.2.0/24", "10.9.0.2")), false, keep, ""},
		{"fits, not on all routers", ours(partial(testRoute("10.244.1.0/24", "10.0.0.1"))), false, complete, ""},
		{"fits, of somebody else and not on all routers", partial(testRoute("10.244.1.0/24", "10.0.0.1")), false, complete, ""},
		{"ours to no node", ours(testRoute("10.244.9.0/24", "10.0.0.9")), false, remove, ""},
		{"ours to no node, not on all routers", ours(partial(testRoute("10.244.9.0/24", "10.0.0.9"))), false, remove, ""},
		{"not recorded, but seen to fit before", testRoute("10.244.9.0/24", "10.0.0.9"), true, remove, ""},
		{"an operator's to no node", testRoute("10.244.9.0/24", "10.0.0.9"), false, leave, ""},
		{"an operator's to a node", testRoute("10.244.9.0/24", "10.0.0.1"), false, leave, ""},
		{"ours to a node that has another CIDR", ours(testRoute("10.244.9.0/24", "10.0.0.1")), false, remove, ""},
		{"a node's CIDR to another node", testRoute("10.244.1.0/24", "10.0.0.2"), false, remove, ""},
		{"a node's CIDR to no node", testRoute("10.244.1.0/24", "10.0.0.9"), false, leave, "a"},
		{"our own for a node's CIDR to no node", ours(testRoute("10.244.1.0/24", "10.0.0.9")), false, remove, ""},
		{"ours to a node without an address", ours(testRoute("10.244.5.0/24", "10.0.0.5")), false, leave, ""},
		{"seen to fit before, to a node without an address", testRoute("10.244.5.0/24", "10.0.0.5"), true, leave, ""},
		{"ours to another node than the one without an address", ours(testRoute("10.244.5.0/24", "10.0.0.1")), false, remove, ""},
		{"an operator's for the CIDR of a node without an address", testRoute("10.244.5.0/24", "10.0.0.5"), false, leave, "no-address"},
		{"a wider one to a node", testRoute("10.244.0.0/16", "10.0.0.1"), false, leave, ""},
		{"an operator's blackhole", testRoute("10.244.8.0/24", ""), false, leave, ""},
		{"a node's CIDR to a blackhole", testRoute("10.244.1.0/24", ""), false, remove, ""},
		{"our blackhole", ours(testRoute("10.244.8.0/24", "")), false, remove, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := makePlan([]cloud.Route{test.route}, nodes, map[path]bool{pathOf(test.route): test.known}, routing{})
			for _, r := range p.adopt {
				if r.Node.NodeName != "a" {
					t.Errorf("to be recorded for node %q", r.Node.NodeName)
				}
			}
			itself := names([]cloud.Route{test.route})
			want := map[string][]string{}
			if test.want == adopt || test.want == remove {
				want[test.want] = itself
			}
			all := []string{"10.244.1.0/24 via 10.0.0.1", "10.244.2.0/24 via 10.0.0.2", "fd00:0:0:1::/64 via fd00:1::1"}
			want["add"] = slices.DeleteFunc(all, func(s string) bool {
				cidr := test.route.Destination.String()
				return (test.want == keep || test.want == adopt) && len(s) > len(cidr) && s[:len(cidr)] == cidr
			})
			got := map[string][]string{adopt: names(p.adopt), remove: names(slices.Concat(p.remove, p.gone)), "add": names(p.add)}
			for _, m := range []map[string][]string{want, got} { // not by an option of cmp: it hides what one side lacks
				maps.DeleteFunc(m, func(_ string, v []string) bool { return len(v) == 0 })
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if (test.conflict != "") != (len(p.conflicts) > 0) || test.conflict != "" && len(p.conflicts[test.conflict]) != 1 {
				t.Errorf("conflicts: %v, want one of node %q", p.conflicts, test.conflict)
			}
		})
	}
}

func TestPlanOfNodes(t *testing.T) {
	fresh := testNode("fresh", []string{"10.244.3.0/24"})
	fresh.Spec.Taints = []corev1.Taint{{Key: taintUninitialized}}
	nodes := []*corev1.Node{
		testNode("both", []string{"10.244.1.0/24", "fd00:0:0:1::/64"}, "fd00:1::1", "10.0.0.1"),
		testNode("lacks one", []string{"10.244.2.0/24", "fd00:0:0:2::/64"}, "10.0.0.2"),
		testNode("outside", []string{"172.16.0.0/24"}, "10.0.0.4"),
		fresh,
	}
	p := makePlan(nil, nodes, nil, routing{})
	want := []string{"10.244.1.0/24 via 10.0.0.1", "10.244.2.0/24 via 10.0.0.2", "172.16.0.0/24 via 10.0.0.4", "fd00:0:0:1::/64 via fd00:1::1"}
	if diff := cmp.Diff(want, names(p.add)); diff != "" {
		t.Errorf("routes to add (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"lacks one": "node lacks one has no InternalIP of the IP family of its pod CIDR fd00:0:0:2::/64",
		"fresh":     "node fresh has no InternalIP of the IP family of its pod CIDR 10.244.3.0/24",
	}, p.problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if !p.silent["fresh"] || p.silent["lacks one"] {
		t.Errorf("silent: %v", p.silent)
	}
}

// What was seen to lead to its Node is remembered until it is gone.
func TestPlanRemembers(t *testing.T) {
	node := testNode("a", []string{"10.244.1.0/24"}, "10.0.0.1")
	list := []cloud.Route{testRoute("10.244.1.0/24", "10.0.0.1"), testRoute("10.244.7.0/24", "10.0.0.7")}
	p := makePlan(list, []*corev1.Node{node}, nil, routing{})
	for range 2 { // the removal may fail
		p = makePlan(list, nil, p.known, routing{})
		if diff := cmp.Diff([]string{"10.244.1.0/24 via 10.0.0.1"}, names(p.gone)); diff != "" {
			t.Fatalf("routes to remove (-want +got):\n%s", diff)
		}
	}
	if p = makePlan(list[1:], nil, p.known, routing{}); len(p.known) > 0 || len(p.gone) > 0 {
		t.Errorf("remembers %v, removes %v", p.known, p.gone)
	}
}
