package ccm

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func testNode(name string, podCIDRs []string, internal ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	for _, a := range internal {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func testRoute(destination, hop string, ours bool) cloud.Route {
	r := cloud.Route{Destination: netip.MustParsePrefix(destination), Ours: ours}
	if hop != "" {
		r.NextHop = netip.MustParseAddr(hop)
	}
	return r
}

// What ListRoutes shows and fits no node is deleted by the framework.
func TestVisibleRoutes(t *testing.T) {
	nodes := []*corev1.Node{
		testNode("a", []string{"10.244.1.0/24", "FD00:0:0:1::/64"}, "10.0.0.1", "fd00:1::1"),
		testNode("b", []string{"10.244.2.0/24"}, "10.0.0.2"),
		testNode("no-cidr", nil, "10.0.0.3"),
	}
	for _, test := range []struct {
		name  string
		route cloud.Route
		want  *cloudprovider.Route // nil: not shown
	}{
		{"fits", testRoute("10.244.1.0/24", "10.0.0.1", false), &cloudprovider.Route{TargetNode: "a", DestinationCIDR: "10.244.1.0/24"}},
		{"fits in the node's own spelling", testRoute("fd00:0:0:1::/64", "fd00:1::1", false), &cloudprovider.Route{TargetNode: "a", DestinationCIDR: "FD00:0:0:1::/64"}},
		{"ours to no node", testRoute("10.244.9.0/24", "10.0.0.9", true), &cloudprovider.Route{DestinationCIDR: "10.244.9.0/24"}},
		{"an operator's to no node", testRoute("10.244.9.0/24", "10.0.0.9", false), nil},
		{"an operator's to a node", testRoute("10.244.9.0/24", "10.0.0.1", false), nil},
		{"ours to a node that has another CIDR", testRoute("10.244.9.0/24", "10.0.0.1", true), &cloudprovider.Route{DestinationCIDR: "10.244.9.0/24"}},
		{"a node's CIDR to another node", testRoute("10.244.1.0/24", "10.0.0.2", false), &cloudprovider.Route{DestinationCIDR: "10.244.1.0/24"}},
		{"a node's CIDR to no node", testRoute("10.244.1.0/24", "10.0.0.9", false), nil},
		{"a wider one to a node", testRoute("10.244.0.0/16", "10.0.0.1", false), nil},
		{"an operator's blackhole", testRoute("10.244.8.0/24", "", false), nil},
		{"our blackhole", testRoute("10.244.8.0/24", "", true), &cloudprovider.Route{DestinationCIDR: "10.244.8.0/24", Blackhole: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := visible([]cloud.Route{test.route}, nodes)
			if test.want == nil {
				if len(got) > 0 {
					t.Fatalf("shows %+v", *got[0])
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("shows %d routes", len(got))
			}
			if diff := cmp.Diff(test.want, got[0], cmpopts.IgnoreFields(cloudprovider.Route{}, "Name", "TargetNodeAddresses")); diff != "" {
				t.Errorf("route (-want +got):\n%s", diff)
			}
			back, err := parseRouteName(got[0].Name)
			if err != nil || back.Destination != test.route.Destination || back.NextHop != test.route.NextHop {
				t.Errorf("the name %q leads back to %+v, %v", got[0].Name, back, err)
			}
		})
	}
}

func FuzzParseRouteName(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8 via 10.0.0.1", "fd00::/64 via nothing", "", " via ", "x via y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		r, err := parseRouteName(name)
		if err != nil {
			return
		}
		again, err := parseRouteName(routeName(r))
		if err != nil || again != r {
			t.Errorf("%q: %+v becomes %+v, %v", name, r, again, err)
		}
	})
}
