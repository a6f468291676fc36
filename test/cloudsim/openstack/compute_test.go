package openstack_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func names(list []servers.Server) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = s.Name
	}
	return out
}

func TestServerListPages(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{MaxLimit: 7})
	seeded := sim.SeedServers(ossim.Seed{Count: 20, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}})
	if len(seeded) != 20 {
		t.Fatalf("%d servers seeded", len(seeded))
	}
	c := compute(t, sim, "2.90")
	sim.ResetRequests()
	got, err := listServers(t, c, servers.ListOpts{})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, 20) // newest first
	for i := range want {
		want[i] = "node-" + strconv.Itoa(19-i)
	}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if n := sim.Count("compute", http.MethodGet); n != 3 {
		t.Errorf("%d requests for 7+7+6 servers, want 3", n)
	}
	if got[0].AvailabilityZone != "az2" || got[0].Flavor["original_name"] != "m1.small" || got[0].Status != "ACTIVE" {
		t.Errorf("server: %+v", got[0])
	}
	if ip := seeded[19].Addresses[0].String(); !strings.Contains(toText(got[0].Addresses), ip) || !strings.HasPrefix(ip, "127."+strconv.Itoa(sim.Net())+".") {
		t.Errorf("addresses %v of the server whose port has %s", got[0].Addresses, ip)
	}
}

func toText(addresses map[string]any) string {
	var b strings.Builder
	for _, list := range addresses {
		for _, a := range list.([]any) {
			b.WriteString(a.(map[string]any)["addr"].(string) + " ")
		}
	}
	return b.String()
}

func TestServerListFilters(t *testing.T) {
	sim := ossim.ForTest(t)
	nodes := sim.SeedServers(ossim.Seed{Count: 12, NamePrefix: "node-", Zones: []string{"az1", "az2"}})
	sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "other-", Flavor: "m1.large"})
	sim.StopServer(nodes[3].ID)
	tests := []struct {
		name         string
		microversion string
		opts         servers.ListOpts
		want         []string
	}{
		{"exact name", "", servers.ListOpts{Name: "^node-1$"}, []string{"node-1"}},
		{"name is a substring", "", servers.ListOpts{Name: "node-1"}, []string{"node-11", "node-10", "node-1"}},
		{"name without case", "", servers.ListOpts{Name: "^NODE-1$"}, []string{"node-1"}},
		{"status", "", servers.ListOpts{Status: "shutoff"}, []string{"node-3"}},
		{"unknown status", "", servers.ListOpts{Status: "FOO"}, []string{}},
		{"ip", "", servers.ListOpts{IP: "^" + regexp.QuoteMeta(nodes[5].Addresses[0].String()) + "$"}, []string{"node-5"}},
		{"limit and marker", "", servers.ListOpts{Marker: nodes[2].ID}, []string{"node-1", "node-0"}},
		{"zone is no filter before 2.83", "2.82", servers.ListOpts{AvailabilityZone: "az2", Name: "^node-[01]$"}, []string{"node-1", "node-0"}},
		{"zone", "2.83", servers.ListOpts{AvailabilityZone: "az2", Name: "^node-[01]$"}, []string{"node-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := listServers(t, compute(t, sim, tt.microversion), tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, names(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestServerScope(t *testing.T) {
	sim := ossim.ForTest(t)
	server := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	opts := password(sim)
	opts.Username, opts.Password, opts.TenantName = ossim.AdminName, ossim.AdminPassword, ossim.AdminName
	admin, err := openstack.NewComputeV2(login(t, sim, opts), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := listServers(t, admin, servers.ListOpts{}); err != nil || len(got) != 0 {
		t.Errorf("another project's servers are listed: %v, %v", names(got), err)
	}
	if got, err := listServers(t, admin, servers.ListOpts{AllTenants: true}); err != nil || len(got) != 1 {
		t.Errorf("all tenants: %v, %v", names(got), err)
	}
	if _, err := servers.Get(t.Context(), admin, server.ID).Extract(); err != nil {
		t.Errorf("get as admin: %v", err)
	}
	if _, err := listServers(t, compute(t, sim, ""), servers.ListOpts{AllTenants: true}); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("all tenants as user: got %v, want 403", err)
	}
}

func waitServer(t *testing.T, c *gophercloud.ServiceClient, id, status string) *servers.Server {
	t.Helper()
	var got *servers.Server
	eventually.True(t, "server is "+status, func() bool {
		var err error
		got, err = servers.Get(t.Context(), c, id).Extract()
		if err != nil {
			t.Fatal(err)
		}
		return got.Status == status
	})
	return got
}

// firstFlavorAndImage are what servers can be made of.
func firstFlavorAndImage(t *testing.T, c *gophercloud.ServiceClient) (flavorID, imageID string) {
	t.Helper()
	glance, err := openstack.NewImageV2(c.ProviderClient, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := images.List(glance, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := images.ExtractImages(pages)
	if err != nil || len(all) == 0 {
		t.Fatalf("images: %v, %v", all, err)
	}
	flavorPages, err := flavors.ListDetail(c, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := flavors.ExtractFlavors(flavorPages)
	if err != nil || len(kinds) == 0 {
		t.Fatalf("flavors: %v, %v", kinds, err)
	}
	return kinds[0].ID, all[0].ID
}

func TestServerLife(t *testing.T) {
	sim := ossim.ForTest(t)
	release := sim.HoldStates()
	c := compute(t, sim, "2.93")
	flavorID, imageID := firstFlavorAndImage(t, c)
	made, err := servers.Create(t.Context(), c, servers.CreateOpts{
		Name: "hand-made", FlavorRef: flavorID, ImageRef: imageID, AvailabilityZone: "az2",
		Networks: []servers.Network{{UUID: sim.Defaults().NetworkID}}, Metadata: map[string]string{"hostname": "hand.made"},
	}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := servers.Get(t.Context(), c, made.ID).Extract(); err != nil || got.Status != "BUILD" || len(got.Addresses) != 0 {
		t.Errorf("at first: %+v, %v", got, err)
	}
	release()
	got := waitServer(t, c, made.ID, "ACTIVE")
	view, found := sim.Server(made.ID)
	if !found || len(view.Addresses) != 1 || strings.TrimSpace(toText(got.Addresses)) != view.Addresses[0].String() {
		t.Errorf("addresses %v, simulator %+v", got.Addresses, view)
	}
	if got.AvailabilityZone != "az2" || got.Metadata["hostname"] != "hand.made" {
		t.Errorf("server: %+v", got)
	}
	ifacePages, err := attachinterfaces.List(c, made.ID).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ifaces, err := attachinterfaces.ExtractInterfaces(ifacePages)
	if err != nil || len(ifaces) != 1 || ifaces[0].PortID != view.PortIDs[0] || ifaces[0].FixedIPs[0].IPAddress != view.Addresses[0].String() {
		t.Errorf("interfaces: %+v, %v", ifaces, err)
	}
	if err := servers.Stop(t.Context(), c, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	waitServer(t, c, made.ID, "SHUTOFF")
	if err := servers.Stop(t.Context(), c, made.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("stop again: got %v, want 409", err)
	}
	if err := servers.Start(t.Context(), c, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	waitServer(t, c, made.ID, "ACTIVE")
	if err := servers.Delete(t.Context(), c, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "server is gone", func() bool {
		_, err := servers.Get(t.Context(), c, made.ID).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	})
	snap := sim.Snapshot()
	if len(snap.Servers) != 0 || slices.ContainsFunc(snap.Ports, func(p ossim.Item) bool { return p.ID == view.PortIDs[0] }) {
		t.Errorf("left behind: %+v", snap)
	}
}

func TestSeedThousandAndReadConcurrently(t *testing.T) {
	sim := ossim.ForTest(t)
	begin := time.Now()
	if got := len(sim.SeedServers(ossim.Seed{Count: 1000, NamePrefix: "node-", Zones: []string{"az1", "az9"}})); got != 1000 {
		t.Fatalf("%d servers seeded", got)
	}
	t.Logf("seeded in %v", time.Since(begin))
	c := compute(t, sim, "2.90")
	begin = time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got, err := listServers(t, c, servers.ListOpts{})
			if err != nil || len(got) != 1000 {
				t.Errorf("%d servers, %v", len(got), err)
			}
			sim.StopServer(got[i].ID)
		}()
	}
	wg.Wait()
	t.Logf("8 lists of 1000 servers in %v", time.Since(begin))
	zones, err := availabilityzones.List(c).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	infos, err := availabilityzones.ExtractAvailabilityZones(zones)
	if err != nil || len(infos) != 4 || infos[3].ZoneName != "az9" {
		t.Errorf("zones: %+v, %v", infos, err)
	}
}

func TestInterfaces(t *testing.T) {
	sim := ossim.ForTest(t)
	server := sim.SeedServers(ossim.Seed{Count: 1})[0]
	c := compute(t, sim, "2.93")
	added, err := attachinterfaces.Create(t.Context(), c, server.ID, attachinterfaces.CreateOpts{NetworkID: sim.Defaults().NetworkID}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	view, _ := sim.Server(server.ID)
	if len(view.PortIDs) != 2 || view.PortIDs[1] != added.PortID || len(view.Addresses) != 2 || view.Addresses[1].String() != added.FixedIPs[0].IPAddress {
		t.Errorf("added %+v, server %+v", added, view)
	}
	_, err = attachinterfaces.Create(t.Context(), c, server.ID, attachinterfaces.CreateOpts{PortID: "nope"}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("unknown port: got %v, want 404", err)
	}
	if err := attachinterfaces.Delete(t.Context(), c, server.ID, added.PortID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if view, _ = sim.Server(server.ID); len(view.PortIDs) != 1 || view.PortIDs[0] != server.PortIDs[0] {
		t.Errorf("after detaching: %+v", view)
	}
}
