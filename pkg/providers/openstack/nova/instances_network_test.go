package nova

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// neutronOf is the client of the provider itself.
func neutronOf(t *testing.T, p *cloud.Provider) *gophercloud.ServiceClient {
	t.Helper()
	sc, err := p.Instances.(*Instances).c.Service(apitest.Context(t), api.Network)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// makeNetwork makes a network with subnets.
func makeNetwork(ctx context.Context, t *testing.T, sc *gophercloud.ServiceClient, name string, cidrs ...string) *networks.Network {
	t.Helper()
	n, err := networks.Create(ctx, sc, networks.CreateOpts{Name: name}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	for _, cidr := range cidrs {
		o := subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: gophercloud.IPv4}
		if cidr[:2] == "fd" {
			o.IPVersion = gophercloud.IPv6
		}
		if _, err := subnets.Create(ctx, sc, o).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Trunk subports cost two requests in all, however many trunks there are, and their addresses
// join the Node's.
func TestTrunkSubports(t *testing.T) {
	for _, test := range []struct{ count, each int }{{1, 1}, {3, 1}, {40, 2}, {120, 1}} {
		count := test.count
		t.Run(fmt.Sprintf("%d trunks of %d subports", count, test.each), func(t *testing.T) {
			sim := ossim.ForTest(t, ossim.Options{Trunks: true})
			servers := sim.SeedServers(ossim.Seed{Count: count, NamePrefix: "node-"})
			p := newProvider(t, sim, "")
			ctx, sc := apitest.Context(t), neutronOf(t, p)
			vlan := makeNetwork(ctx, t, sc, "vlan", "10.7.0.0/24")
			var want [][]corev1.NodeAddress
			for _, s := range servers {
				addresses := []corev1.NodeAddress{internal(s.Addresses[0].String())}
				var subs []trunks.Subport
				for k := range test.each {
					sub, err := ports.Create(ctx, sc, ports.CreateOpts{NetworkID: vlan.ID}).Extract()
					if err != nil {
						t.Fatal(err)
					}
					subs = append(subs, trunks.Subport{PortID: sub.ID, SegmentationID: 7 + k, SegmentationType: "vlan"})
					addresses = append(addresses, internal(sub.FixedIPs[0].IPAddress))
				}
				if _, err := trunks.Create(ctx, sc, trunks.CreateOpts{PortID: s.PortIDs[0], Subports: subs}).Extract(); err != nil {
					t.Fatal(err)
				}
				want = append(want, addresses)
			}
			sim.ResetRequests()
			for n, r := range p.Instances.Find(apitest.Context(t), refsOf(servers)) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				if diff := cmp.Diff(want[n], r.Value.Addresses); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
			}
			if n := apitest.Calls(sim); n > 4 {
				t.Errorf("%d calls, want at most servers, ports, subports and networks", n)
			}
			apitest.LogCalls(t, sim)
		})
	}
}

// 5,000 nodes cost a list of servers and one of ports, page by page; a few of them that are
// not ready are read one by one, not from five pages of servers.
func TestFindFiveThousand(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 5000, NamePrefix: "node-"})
	if len(servers) != 5000 {
		t.Fatalf("the simulator made %d servers", len(servers))
	}
	p := newProvider(t, sim, "")
	for _, test := range []struct{ nodes, most int }{{5000, 6 + 6}, {5, 5 + 1}, {6, 6 + 1}, {1, 2}} { // the last page is empty
		sim.ResetRequests()
		refs := refsOf(servers[:test.nodes])
		for n, r := range p.Instances.Find(apitest.Context(t), refs) {
			if r.Err != nil {
				t.Fatalf("%v: %v", refs[n], r.Err)
			}
		}
		if n := apitest.Calls(sim); n > test.most {
			t.Errorf("%d calls for %d nodes, want at most %d", n, test.nodes, test.most)
		}
		if lists := sim.Count("compute", "GET") > 0 && listed(sim); lists != (test.nodes > 5) {
			t.Errorf("%d nodes were read from a list: %t", test.nodes, lists)
		}
	}
}

func listed(sim *ossim.Sim) bool {
	for _, r := range sim.Requests() {
		if r.Path == "/servers/detail" {
			return true
		}
	}
	return false
}

// A machine's UUID tells servers of one name apart, and protects a Node whose server has
// another name; it never makes a Node another's.
func TestSystemUUID(t *testing.T) {
	sim := ossim.ForTest(t)
	s := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"})
	twin := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0] // node-0 again
	p := newProvider(t, sim, "")
	const hardware = "4c4c4544-0000-4000-8000-b3c04f4d3132"
	tests := []struct {
		name string
		ref  cloud.InstanceRef
		want string     // server ID, empty for none
		kind cloud.Kind // of the error then
	}{
		{"unique name", cloud.InstanceRef{NodeName: "node-1", SystemUUID: s[1].ID}, s[1].ID, 0},
		{"upper case", cloud.InstanceRef{NodeName: "node-1", SystemUUID: strings.ToUpper(s[1].ID)}, s[1].ID, 0},
		{"first of two", cloud.InstanceRef{NodeName: "node-0", SystemUUID: s[0].ID}, s[0].ID, 0},
		{"second of two", cloud.InstanceRef{NodeName: "node-0", SystemUUID: twin.ID}, twin.ID, 0},
		{"two, UUID of hardware", cloud.InstanceRef{NodeName: "node-0", SystemUUID: hardware}, "", cloud.KindConflict},
		{"two, no UUID", cloud.InstanceRef{NodeName: "node-0"}, "", cloud.KindConflict},
		{"UUID of hardware", cloud.InstanceRef{NodeName: "node-2", SystemUUID: hardware}, s[2].ID, 0},
		{"no UUID at all", cloud.InstanceRef{NodeName: "node-2", SystemUUID: "Not Specified"}, s[2].ID, 0},
		{"another's UUID", cloud.InstanceRef{NodeName: "node-1", SystemUUID: s[2].ID}, "", cloud.KindConflict},
		{"renamed server", cloud.InstanceRef{NodeName: "node-old", SystemUUID: s[2].ID}, "", cloud.KindConflict},
		{"gone", cloud.InstanceRef{NodeName: "node-9", SystemUUID: missingID}, "", cloud.KindNotFound},
		{"gone, UUID of hardware", cloud.InstanceRef{NodeName: "node-9", SystemUUID: hardware}, "", cloud.KindNotFound},
	}
	var refs []cloud.InstanceRef
	for _, tt := range tests {
		refs = append(refs, tt.ref)
	}
	answers := p.Instances.Find(apitest.Context(t), refs)
	for n, tt := range tests {
		direct, err := p.Instances.Get(apitest.Context(t), tt.ref)
		for how, got := range map[string]cloud.Result[*cloud.Instance]{"Find": answers[n], "Get": {Value: direct, Err: err}} {
			switch {
			case tt.want != "" && (got.Err != nil || got.Value.ProviderID != "openstack:///"+tt.want):
				t.Errorf("%s, %s: %v, %v", tt.name, how, got.Value, got.Err)
			case tt.want == "" && (got.Err == nil || cloud.KindOf(got.Err) != tt.kind):
				t.Errorf("%s, %s: %v, %v of kind %v, want %v", tt.name, how, got.Value, got.Err, cloud.KindOf(got.Err), tt.kind)
			}
		}
	}
}
