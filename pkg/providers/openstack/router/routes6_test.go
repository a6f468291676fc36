package router

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// newDualStackLab is a lab whose servers have an address of each family on the router's networks.
func newDualStackLab(t *testing.T, servers int) *routeLab {
	lab := newRouteLab(t, 0)
	ctx := apitest.Context(t)
	sc, err := lab.routes.c.Service(ctx, api.Network)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := subnets.Create(ctx, sc, subnets.CreateOpts{NetworkID: lab.sim.Defaults().NetworkID, CIDR: "fd00:7::/64",
		IPVersion: gophercloud.IPv6, IPv6AddressMode: "dhcpv6-stateful", IPv6RAMode: "dhcpv6-stateful"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := routers.AddInterface(ctx, sc, lab.routes.router, routers.AddInterfaceOpts{SubnetID: sub.ID}).Extract(); err != nil {
		t.Fatal(err)
	}
	lab.servers = lab.sim.SeedServers(ossim.Seed{Count: servers, NamePrefix: "node-"})
	return lab
}

// both are the pod routes of the n-th server.
func (l *routeLab) both(n int) []cloud.Route {
	l.t.Helper()
	s := l.servers[n]
	k := slices.IndexFunc(s.Addresses, netip.Addr.Is6)
	if k < 0 {
		l.t.Fatalf("server %s has no IPv6 address but %v", s.Name, s.Addresses)
	}
	ref := cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}
	four := slices.IndexFunc(s.Addresses, netip.Addr.Is4)
	return []cloud.Route{
		{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24), NextHop: s.Addresses[four], Node: ref},
		{Destination: netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x10, 7: byte(n)}), 64), NextHop: s.Addresses[k], Node: ref},
	}
}

// Routes of both families of a Node come with one change of its port, stay beside an
// operator's of each family, and go without a trace, with and without extraroute-atomic.
func TestRoutesDualStack(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		lab := newDualStackLab(t, 2)
		if !atomic {
			lab.sim.HideExtension("extraroute-atomic")
		}
		want := slices.Concat(lab.both(0), lab.both(1))
		hop := lab.both(0)[1].NextHop.String()
		lab.put("routers/"+lab.routes.router, map[string]any{"router": map[string]any{"routes": []routeEntry{
			{"FD00:10:0:77::/64", hop}, {"2001:db8:77::/48", hop}, {"192.168.77.0/24", lab.both(0)[0].NextHop.String()}}}})
		before := lab.state()
		lab.sim.ResetRequests()
		lab.mustApply(want, nil)
		changes := 1 // of the table
		if n := lab.sim.Mutations(); n != changes+len(want)+len(lab.servers) {
			t.Errorf("atomic %t: %d changes, want one of the table, %d records and %d ports", atomic, n, len(want), len(lab.servers))
		}
		ours := 0
		for _, r := range lab.list() {
			if r.Ours {
				ours++
			}
		}
		if ours != len(want) {
			t.Errorf("atomic %t: %d routes are ours, want %d", atomic, ours, len(want))
		}
		pairs := []string{want[0].Destination.String(), want[1].Destination.String()}
		if diff := cmp.Diff(pairs, lab.state().Pairs["node-0"]); diff != "" {
			t.Errorf("atomic %t: address pairs (-want +got):\n%s", atomic, diff)
		}
		lab.sim.ResetRequests()
		lab.mustApply(want, nil)
		if n := lab.sim.Mutations(); n != 0 {
			t.Errorf("atomic %t: %d changes for what is there", atomic, n)
		}
		lab.mustApply(nil, want)
		if diff := diffState(before, lab.state()); diff != "" {
			t.Errorf("atomic %t: left (-before +after):\n%s", atomic, diff)
		}
	}
}

// Two clusters with the same pod CIDRs on one router: neither sees, changes or removes what
// the other one has, records included.
func TestRoutesOfTwoClustersWithTheSameCIDRs(t *testing.T) {
	lab := newDualStackLab(t, 2)
	other := lab.cluster
	other.UID = "uid-2"
	theirs := lab.both(1)
	for k, r := range lab.both(0) { // the same destinations, by their own nodes
		theirs[k].Destination = r.Destination
	}
	lab.mustApply(lab.both(0), nil)
	alone := lab.state()
	ctx := apitest.Context(t)
	for n, err := range lab.routes.Apply(ctx, other, theirs, nil) {
		if err != nil {
			t.Fatalf("route %d: %v", n, err)
		}
	}
	for uid, want := range map[string]netip.Addr{"uid-1": lab.both(0)[0].NextHop, "uid-2": theirs[0].NextHop} {
		view := lab.cluster
		view.UID = uid
		list, err := lab.routes.List(ctx, view)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Destination == theirs[0].Destination && r.Ours != (r.NextHop == want) {
				t.Errorf("cluster %s: %s via %s, ours %t", uid, r.Destination, r.NextHop, r.Ours)
			}
		}
	}
	for n, err := range lab.routes.Apply(ctx, other, nil, theirs) {
		if err != nil {
			t.Fatalf("route %d: %v", n, err)
		}
	}
	if diff := diffState(alone, lab.state()); diff != "" {
		t.Errorf("what the first cluster has changed (-before +after):\n%s", diff)
	}
}
