package openstack_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunk_details"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// makeSubnets makes a network with a subnet of each CIDR; mode is the IPv6 address mode.
func makeSubnets(t *testing.T, neutron *gophercloud.ServiceClient, mode string, cidrs ...string) (networkID string, ids []string) {
	t.Helper()
	ctx := context.Background()
	n, err := networks.Create(ctx, neutron, networks.CreateOpts{Name: "dual"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	for _, cidr := range cidrs {
		opts := subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: gophercloud.IPv4}
		if netip.MustParsePrefix(cidr).Addr().Is6() {
			opts.IPVersion, opts.IPv6AddressMode, opts.IPv6RAMode = gophercloud.IPv6, mode, mode
		}
		sub, err := subnets.Create(ctx, neutron, opts).Extract()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.ID)
	}
	return n.ID, ids
}

func TestDualStackPorts(t *testing.T) {
	sim := ossim.ForTest(t)
	client := neutron(t, sim)
	for mode, want := range map[string][]string{
		"dhcpv6-stateful": {"10.7.0.2", "fd77::1"}, // Neutron's gateway of IPv6 is the net's first address
		"slaac":           {"10.7.0.2", "fd77::f816:3eff:fe00:107"},
	} {
		t.Run(mode, func(t *testing.T) {
			id, subs := makeSubnets(t, client, mode, "10.7.0.0/24", "fd77::/64")
			p, err := ports.Create(context.Background(), client, ports.CreateOpts{NetworkID: id, MACAddress: "fa:16:3e:00:01:07"}).Extract()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]ports.IP{{SubnetID: subs[0], IPAddress: want[0]}, {SubnetID: subs[1], IPAddress: want[1]}}, p.FixedIPs); diff != "" {
				t.Errorf("a port's addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAdditionalVIPs: as the real Zed has them, the amphora driver gives each its address, and the
// ovn driver takes them and forgets them.
func TestAdditionalVIPs(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{StateDelay: time.Millisecond})
	client, lbs := neutron(t, sim), octavia(t, sim)
	_, subs := makeSubnets(t, client, "dhcpv6-stateful", "10.7.0.0/24", "fd77::/64")
	for provider, want := range map[string]int{"amphora": 2, "ovn": 1} {
		lb, err := loadbalancers.Create(context.Background(), lbs, loadbalancers.CreateOpts{
			VipSubnetID: subs[0], Provider: provider, AdditionalVips: []loadbalancers.AdditionalVip{{SubnetID: subs[1]}}}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if len(lb.AdditionalVips) != 1 || lb.AdditionalVips[0].SubnetID != subs[1] || (lb.AdditionalVips[0].IPAddress != "") != (want == 2) {
			t.Errorf("%s: additional VIPs %+v", provider, lb.AdditionalVips)
		}
		p, err := ports.Get(context.Background(), client, lb.VipPortID).Extract()
		if err != nil || len(p.FixedIPs) != want {
			t.Errorf("%s: the VIP's port has %+v, %v; want %d addresses", provider, p.FixedIPs, err, want)
		}
	}
}

func TestTrunks(t *testing.T) {
	ctx := context.Background()
	without := ossim.ForTest(t)
	if _, err := trunks.List(neutron(t, without), nil).AllPages(ctx); !gophercloud.ResponseCodeIs(err, 404) {
		t.Errorf("trunks where the plugin is not loaded: %v, want 404", err)
	}
	sim := ossim.ForTest(t, ossim.Options{Trunks: true})
	client := neutron(t, sim)
	server := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	id, _ := makeSubnets(t, client, "", "10.7.0.0/24")
	sub, err := ports.Create(ctx, client, ports.CreateOpts{NetworkID: id}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	made, err := trunks.Create(ctx, client, trunks.CreateOpts{PortID: server.PortIDs[0], Subports: []trunks.Subport{
		{PortID: sub.ID, SegmentationID: 7, SegmentationType: "vlan"}}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	var parent struct {
		ports.Port
		trunk_details.TrunkDetailsExt
	}
	if err := ports.Get(ctx, client, server.PortIDs[0]).ExtractInto(&parent); err != nil {
		t.Fatal(err)
	}
	want := trunk_details.TrunkDetails{TrunkID: made.ID, SubPorts: []trunk_details.Subport{{Subport: trunks.Subport{PortID: sub.ID, SegmentationID: 7, SegmentationType: "vlan"}, MACAddress: sub.MACAddress}}}
	if diff := cmp.Diff(want, parent.TrunkDetails); diff != "" {
		t.Errorf("trunk_details (-want +got):\n%s", diff)
	}
	if err := ports.Delete(ctx, client, sub.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, 409) {
		t.Errorf("deleting a subport: %v, want 409", err)
	}
	if _, err := trunks.RemoveSubports(ctx, client, made.ID, trunks.RemoveSubportsOpts{Subports: []trunks.RemoveSubport{{PortID: sub.ID}}}).Extract(); err != nil {
		t.Fatal(err)
	}
	if err := trunks.Delete(ctx, client, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	sim.DeleteServer(server.ID)
	if err := ports.Delete(ctx, client, sub.ID).ExtractErr(); err != nil {
		t.Errorf("a port that was a subport: %v", err)
	}
}
