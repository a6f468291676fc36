package openstack

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// neutronOf is the client of the provider itself.
func neutronOf(t *testing.T, p *cloud.Provider) *gophercloud.ServiceClient {
	t.Helper()
	sc, err := p.Instances.(*Instances).c.network(testContext(t))
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
			sim, err := ossim.Start(ossim.Options{Trunks: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sim.Close)
			servers := sim.SeedServers(ossim.Seed{Count: count, NamePrefix: "node-"})
			p := newProvider(t, sim, "")
			ctx, sc := testContext(t), neutronOf(t, p)
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
			for n, r := range p.Instances.Find(testContext(t), refsOf(servers)) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				if diff := cmp.Diff(want[n], r.Value.Addresses); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
			}
			if n := calls(sim); n > 4 {
				t.Errorf("%d calls, want at most servers, ports, subports and networks", n)
			}
			logCalls(t, sim)
		})
	}
}
