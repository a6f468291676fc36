package openstack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func neutron(t *testing.T, sim *ossim.Sim) *gophercloud.ServiceClient {
	return serviceClient(t, sim, openstack.NewNetworkV2)
}

// must ends the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// refused asserts that a call was refused with a status.
func refused(t *testing.T, err error, status int) {
	t.Helper()
	if !gophercloud.ResponseCodeIs(err, status) {
		t.Errorf("error %v, want status %d", err, status)
	}
}

func listPorts(t *testing.T, c *gophercloud.ServiceClient, opts ports.ListOpts) []ports.Port {
	t.Helper()
	pages, err := ports.List(c, opts).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return must[[]ports.Port](t)(ports.ExtractPorts(pages))
}

func TestPortFilters(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	servers := sim.SeedServers(ossim.Seed{Count: 5, NamePrefix: "node-", Zones: []string{"az1", "az2"}})
	d := sim.Defaults()
	all := listPorts(t, c, ports.ListOpts{NetworkID: d.NetworkID})
	if len(all) != 6 { // and the router's
		t.Fatalf("%d ports on the network", len(all))
	}
	first := listPorts(t, c, ports.ListOpts{DeviceID: servers[0].ID})
	if len(first) != 1 || first[0].DeviceOwner != "compute:az1" || first[0].Status != "ACTIVE" || len(first[0].SecurityGroups) != 1 {
		t.Fatalf("port of the first server: %+v", first)
	}
	ip := first[0].FixedIPs[0].IPAddress
	if want := servers[0].Addresses[0].String(); ip != want {
		t.Errorf("port has %s, server %s", ip, want)
	}
	for name, tt := range map[string]struct {
		opts ports.ListOpts
		want int
	}{
		"owner":             {ports.ListOpts{DeviceOwner: "compute:az2"}, 2},
		"fixed address":     {ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: ip}}}, 1},
		"fixed subnet":      {ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{SubnetID: d.SubnetID}}}, 6},
		"other address":     {ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: "127.1.2.3"}}}, 0},
		"status":            {ports.ListOpts{Status: "DOWN"}, 0},
		"security group":    {ports.ListOpts{SecurityGroups: []string{d.SecurityGroupID}}, 5},
		"limit with marker": {ports.ListOpts{Limit: 2}, 6}, // all pages
		"unknown tag":       {ports.ListOpts{Tags: "x"}, 0},
	} {
		if got := listPorts(t, c, tt.opts); len(got) != tt.want {
			t.Errorf("%s: %d ports, want %d", name, len(got), tt.want)
		}
	}
	sim.ResetRequests()
	listPorts(t, c, ports.ListOpts{Limit: 2})
	if got := sim.Count("network", "GET"); got != 3 {
		t.Errorf("%d pages", got)
	}
}

func TestSeveralDevicesInOneCall(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"})
	var body struct{ Ports []ports.Port }
	url := c.ServiceURL("ports") + "?fields=device_id&device_id=" + servers[0].ID + "&device_id=" + servers[2].ID
	if _, err := c.Get(t.Context(), url, &body, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range body.Ports {
		got = append(got, p.DeviceID)
	}
	want := []string{servers[0].ID, servers[2].ID}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNetworkLife(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	before := sim.Snapshot()
	n := must[*networks.Network](t)(networks.Create(t.Context(), c, networks.CreateOpts{Name: "net"}).Extract())
	sub := must[*subnets.Subnet](t)(subnets.Create(t.Context(), c, subnets.CreateOpts{NetworkID: n.ID, CIDR: "10.77.0.0/24", IPVersion: 4, Name: "sub"}).Extract())
	p := must[*ports.Port](t)(ports.Create(t.Context(), c, ports.CreateOpts{NetworkID: n.ID, Name: "p", FixedIPs: []ports.IP{{SubnetID: sub.ID, IPAddress: "10.77.0.9"}}}).Extract())
	if p.FixedIPs[0].IPAddress != "10.77.0.9" || p.Status != "DOWN" || p.RevisionNumber != 1 {
		t.Errorf("port %+v", p)
	}
	pairs := []ports.AddressPair{{IPAddress: "10.100.0.0/24"}}
	rev := p.RevisionNumber
	p = must[*ports.Port](t)(ports.Update(t.Context(), c, p.ID, ports.UpdateOpts{AllowedAddressPairs: &pairs, RevisionNumber: &rev}).Extract())
	if len(p.AllowedAddressPairs) != 1 || p.AllowedAddressPairs[0].MACAddress != p.MACAddress || p.RevisionNumber != 2 {
		t.Errorf("after the update: %+v", p)
	}
	_, err := ports.Update(t.Context(), c, p.ID, ports.UpdateOpts{AllowedAddressPairs: &[]ports.AddressPair{}, RevisionNumber: &rev}).Extract()
	refused(t, err, http.StatusPreconditionFailed)
	_, err = ports.Create(t.Context(), c, ports.CreateOpts{NetworkID: n.ID, FixedIPs: []ports.IP{{IPAddress: "10.77.0.9"}}}).Extract()
	refused(t, err, http.StatusConflict)
	refused(t, networks.Delete(t.Context(), c, n.ID).Err, http.StatusConflict)
	refused(t, subnets.Delete(t.Context(), c, sub.ID).Err, http.StatusConflict)
	for _, err := range []error{ports.Delete(t.Context(), c, p.ID).Err, networks.Delete(t.Context(), c, n.ID).Err} {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, sim.Snapshot()); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func TestExtensions(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	for _, alias := range []string{"extraroute", "extraroute-atomic", "standard-attr-tag", "security-group", "router", "external-net", "allowed-address-pairs", "port-security"} {
		if _, err := extensions.Get(t.Context(), c, alias).Extract(); err != nil {
			t.Errorf("%s: %v", alias, err)
		}
	}
	_, err := extensions.Get(t.Context(), c, "nope").Extract()
	refused(t, err, http.StatusNotFound)
	sim.HideExtension("extraroute-atomic")
	_, err = extensions.Get(t.Context(), c, "extraroute-atomic").Extract()
	refused(t, err, http.StatusNotFound)
	_, err = extraroutes.Add(t.Context(), c, sim.Defaults().RouterID, extraroutes.Opts{Routes: &[]routers.Route{}}).Extract()
	refused(t, err, http.StatusNotFound)
}

func TestRoutes(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	id := sim.Defaults().RouterID
	hop := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0].Addresses[0].String()
	route := []routers.Route{{DestinationCIDR: "10.100.0.0/24", NextHop: hop}}
	sim.AddOperatorRoute("10.99.0.0/24", "192.0.2.1")
	want := []ossim.Route{{Destination: "10.99.0.0/24", NextHop: "192.0.2.1"}, {Destination: "10.100.0.0/24", NextHop: hop}}

	// The operator's route leads nowhere that the router is connected to, so the table with it is refused.
	_, err := extraroutes.Add(t.Context(), c, id, extraroutes.Opts{Routes: &route}).Extract()
	refused(t, err, http.StatusBadRequest)
	next := must[*subnets.Subnet](t)(subnets.Create(t.Context(), c, subnets.CreateOpts{NetworkID: sim.Defaults().NetworkID, CIDR: "192.0.2.0/24", IPVersion: 4, GatewayIP: new("192.0.2.254")}).Extract())
	if _, err := routers.AddInterface(t.Context(), c, id, routers.AddInterfaceOpts{SubnetID: next.ID}).Extract(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second changes nothing
		if _, err := extraroutes.Add(t.Context(), c, id, extraroutes.Opts{Routes: &route}).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, sim.RouterRoutes("")); diff != "" {
		t.Error(diff)
	}
	_, err = routers.RemoveInterface(t.Context(), c, id, routers.RemoveInterfaceOpts{SubnetID: next.ID}).Extract()
	refused(t, err, http.StatusConflict)
	if _, err := extraroutes.Remove(t.Context(), c, id, extraroutes.Opts{Routes: &route}).Extract(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:1], sim.RouterRoutes("")); diff != "" {
		t.Error(diff)
	}
	r := must[*routers.Router](t)(routers.Update(t.Context(), c, id, routers.UpdateOpts{Routes: &route}).Extract())
	if diff := cmp.Diff(route, r.Routes); diff != "" {
		t.Error(diff)
	}
}

func TestFloatingIPs(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	d := sim.Defaults()
	server := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	p := listPorts(t, c, ports.ListOpts{DeviceID: server.ID})[0]
	f := must[*floatingips.FloatingIP](t)(floatingips.Create(t.Context(), c, floatingips.CreateOpts{FloatingNetworkID: d.ExternalNetworkID, Description: "mine"}).Extract())
	if f.Status != "DOWN" || f.PortID != "" || f.Description != "mine" {
		t.Errorf("new: %+v", f)
	}
	f = must[*floatingips.FloatingIP](t)(floatingips.Update(t.Context(), c, f.ID, floatingips.UpdateOpts{PortID: &p.ID}).Extract())
	if f.Status != "ACTIVE" || f.FixedIP != p.FixedIPs[0].IPAddress || f.RouterID != d.RouterID {
		t.Errorf("associated: %+v", f)
	}
	other := must[*floatingips.FloatingIP](t)(floatingips.Create(t.Context(), c, floatingips.CreateOpts{FloatingNetworkID: d.ExternalNetworkID}).Extract())
	_, err := floatingips.Update(t.Context(), c, other.ID, floatingips.UpdateOpts{PortID: &p.ID}).Extract()
	refused(t, err, http.StatusConflict)
	for name, opts := range map[string]floatingips.ListOpts{
		"port": {PortID: p.ID}, "address": {FloatingIP: f.FloatingIP}, "description": {Description: "mine"}, "status": {Status: "ACTIVE"},
	} {
		pages, err := floatingips.List(c, opts).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := must[[]floatingips.FloatingIP](t)(floatingips.ExtractFloatingIPs(pages)); len(got) != 1 || got[0].ID != f.ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := ports.Delete(t.Context(), c, p.ID).Err; err != nil {
		t.Fatal(err)
	}
	f = must[*floatingips.FloatingIP](t)(floatingips.Get(t.Context(), c, f.ID).Extract())
	if f.Status != "DOWN" || f.PortID != "" {
		t.Errorf("after the port's end: %+v", f)
	}
	for _, id := range []string{f.ID, other.ID} {
		if err := floatingips.Delete(t.Context(), c, id).Err; err != nil {
			t.Error(err)
		}
	}
	if left := sim.Snapshot().FloatingIPs; len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSecurityGroups(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	g := must[*groups.SecGroup](t)(groups.Create(t.Context(), c, groups.CreateOpts{Name: "lb-sg", Description: "d"}).Extract())
	if len(g.Rules) != 2 {
		t.Errorf("a new group has %d rules", len(g.Rules))
	}
	opts := rules.CreateOpts{SecGroupID: g.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP, PortRangeMin: 80, PortRangeMax: 80, RemoteIPPrefix: "10.0.0.0/8"}
	r := must[*rules.SecGroupRule](t)(rules.Create(t.Context(), c, opts).Extract())
	_, err := rules.Create(t.Context(), c, opts).Extract()
	refused(t, err, http.StatusConflict)
	if !strings.Contains(err.Error(), "Security group rule already exists. Rule id is "+r.ID) {
		t.Errorf("refusal: %v", err)
	}
	if _, err := rules.CreateBulk(t.Context(), c, []rules.CreateOpts{{SecGroupID: g.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolUDP, PortRangeMin: 5, PortRangeMax: 5}, opts}).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("bulk: %v", err)
	}
	if got := len(sim.Snapshot().SecurityGroupRules); got != 3 {
		t.Errorf("%d rules after a bulk that was refused", got)
	}
	p := must[*ports.Port](t)(ports.Create(t.Context(), c, ports.CreateOpts{NetworkID: sim.Defaults().NetworkID, SecurityGroups: &[]string{g.ID}}).Extract())
	refused(t, groups.Delete(t.Context(), c, g.ID).Err, http.StatusConflict)
	for _, err := range []error{ports.Delete(t.Context(), c, p.ID).Err, rules.Delete(t.Context(), c, r.ID).Err, groups.Delete(t.Context(), c, g.ID).Err} {
		if err != nil {
			t.Error(err)
		}
	}
	if left := sim.Snapshot(); len(left.SecurityGroups)+len(left.SecurityGroupRules) != 0 {
		t.Errorf("left: %v %v", left.SecurityGroups, left.SecurityGroupRules)
	}
}

func TestTags(t *testing.T) {
	sim := ossim.ForTest(t)
	c := neutron(t, sim)
	id := sim.Defaults().NetworkID
	if _, err := attributestags.ReplaceAll(t.Context(), c, "networks", id, attributestags.ReplaceAllOpts{Tags: []string{"a", "b"}}).Extract(); err != nil {
		t.Fatal(err)
	}
	if err := attributestags.Add(t.Context(), c, "networks", id, "c").ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if err := attributestags.Delete(t.Context(), c, "networks", id, "a").ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, must[[]string](t)(attributestags.List(t.Context(), c, "networks", id).Extract())); diff != "" {
		t.Error(diff)
	}
	for opts, want := range map[networks.ListOpts]int{
		{Tags: "b,c"}: 1, {Tags: "b,x"}: 0, {TagsAny: "b,x"}: 1, {NotTags: "b"}: 1, {NotTagsAny: "x"}: 2,
	} {
		pages, err := networks.List(c, opts).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := must[[]networks.Network](t)(networks.ExtractNetworks(pages)); len(got) != want {
			t.Errorf("%+v: %d networks, want %d", opts, len(got), want)
		}
	}
}

// A real Zed answers 404 to a project's member who asks for a subnet of the external network.
func TestExternalSubnetsMayBeHidden(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		sim := ossim.ForTest(t, ossim.Options{HideExternalSubnets: hidden})
		c, d := neutron(t, sim), sim.Defaults()
		_, err := subnets.Get(t.Context(), c, d.ExternalSubnetID).Extract()
		if hidden {
			refused(t, err, http.StatusNotFound)
		} else if err != nil {
			t.Error(err)
		}
		pages, err := subnets.List(c, subnets.ListOpts{NetworkID: d.ExternalNetworkID}).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if list := must[[]subnets.Subnet](t)(subnets.ExtractSubnets(pages)); (len(list) == 0) != hidden {
			t.Errorf("hidden %v: %d subnets are listed", hidden, len(list))
		}
		if _, err := subnets.Get(t.Context(), c, d.SubnetID).Extract(); err != nil {
			t.Errorf("hidden %v: the project's own subnet: %v", hidden, err)
		}
	}
}
