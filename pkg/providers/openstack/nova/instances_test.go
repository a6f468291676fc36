package nova

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const deadID = "openstack:///" + missingID

func refsOf(servers []ossim.Server) []cloud.InstanceRef {
	refs := make([]cloud.InstanceRef, len(servers))
	for n, s := range servers {
		refs[n] = cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}
	}
	return refs
}

// wantInstance is what a seeded server's Node gets.
func wantInstance(s ossim.Server) *cloud.Instance {
	i := &cloud.Instance{
		ProviderID: "openstack:///" + s.ID, Name: s.Name, Type: s.Flavor, Zone: s.Zone, Region: "RegionOne", Shutdown: s.Status == "SHUTOFF",
	}
	i.MachineIDs = []string{s.ID}
	for _, a := range s.Addresses {
		i.Addresses = append(i.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	return i
}

func checkInstance(t *testing.T, want, got *cloud.Instance) {
	t.Helper()
	if got == nil {
		t.Errorf("no answer for %s", want.Name)
		return
	}
	if host := got.Labels[labelHostID]; host == "" || len(got.Labels) != 1 {
		t.Errorf("labels of %s: %v", got.Name, got.Labels)
	}
	if !strings.HasPrefix(got.Scope, "project ") || !strings.Contains(got.Scope, " at http://127.0.0.1:") {
		t.Errorf("scope of %s: %q", got.Name, got.Scope)
	}
	plain := *got
	plain.Labels, plain.Scope = nil, ""
	if diff := cmp.Diff(want, &plain); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

// 500 nodes cost one list of servers and one of ports, with or without provider IDs.
func TestFindMany(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 500, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}, Flavor: "m1.small"})
	sim.StopServer(servers[7].ID)
	servers[7].Status = "SHUTOFF"
	p := newProvider(t, sim, "")
	defer apitest.LogCalls(t, sim)
	for name, refs := range map[string][]cloud.InstanceRef{
		"by ID": refsOf(servers),
		"by name": func() []cloud.InstanceRef {
			refs := refsOf(servers)
			for n := range refs {
				refs[n].ProviderID = ""
			}
			return refs
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			sim.ResetRequests()
			got := p.Instances.Find(apitest.Context(t), refs)
			if n := apitest.Calls(sim); n > 3 {
				t.Errorf("%d calls for %d nodes, want at most 3", n, len(refs))
			}
			for n, r := range got {
				if r.Err != nil {
					t.Fatalf("%v: %v", refs[n], r.Err)
				}
				checkInstance(t, wantInstance(servers[n]), r.Value)
			}
		})
	}
}

func TestFindFewReadsDirectly(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 30, NamePrefix: "node-"})
	p := newProvider(t, sim, "")
	refs := refsOf(servers)[:2]
	refs = append(refs, refs[0]) // the same once more costs nothing
	got := p.Instances.Find(apitest.Context(t), refs)
	for n, s := range []ossim.Server{servers[0], servers[1], servers[0]} {
		if got[n].Err != nil {
			t.Fatal(got[n].Err)
		}
		checkInstance(t, wantInstance(s), got[n].Value)
	}
	if n := apitest.Calls(sim); n != 3 {
		t.Errorf("%d calls, want 2 for the servers and 1 for their ports", n)
	}
	for _, r := range sim.Requests() {
		if r.Path == "/servers/detail" {
			t.Errorf("two servers were read from a list")
		}
	}
	apitest.LogCalls(t, sim)
}

// Every ref has its own answer: what is missing, malformed or foreign does not spoil the rest.
func TestFindMixed(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"})
	twins := append(sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "twin-"}), sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "twin-"})...)
	p := newProvider(t, sim, "")
	tests := []struct {
		ref  cloud.InstanceRef
		want cloud.Kind // -1 for found
	}{
		{cloud.InstanceRef{NodeName: "node-0", ProviderID: "openstack:///" + servers[0].ID}, -1},
		{cloud.InstanceRef{NodeName: "x", ProviderID: "openstack://RegionOne/" + strings.ToUpper(servers[1].ID)}, -1},
		{cloud.InstanceRef{NodeName: "node-2"}, -1},
		{cloud.InstanceRef{NodeName: twins[0].Name, ProviderID: "openstack:///" + twins[0].ID}, -1},
		{cloud.InstanceRef{NodeName: twins[0].Name}, cloud.KindConflict},
		{cloud.InstanceRef{NodeName: "node-0", ProviderID: deadID}, cloud.KindNotFound},
		{cloud.InstanceRef{NodeName: "node-"}, cloud.KindNotFound},
		{cloud.InstanceRef{NodeName: "node.0"}, cloud.KindNotFound}, // no regular expression
		{cloud.InstanceRef{NodeName: "node-0", ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0"}, cloud.KindInvalid},
		{cloud.InstanceRef{NodeName: "node-0", ProviderID: "openstack://Mars/" + servers[0].ID}, cloud.KindInvalid},
		{cloud.InstanceRef{NodeName: "node-0", ProviderID: "openstack:///node-0"}, cloud.KindInvalid},
		{cloud.InstanceRef{}, cloud.KindInvalid},
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
			case tt.want == -1 && got.Err != nil:
				t.Errorf("%s %v: %v", how, tt.ref, got.Err)
			case tt.want != -1 && (got.Err == nil || cloud.KindOf(got.Err) != tt.want):
				t.Errorf("%s %v: %v of kind %v, want %v", how, tt.ref, got.Err, cloud.KindOf(got.Err), tt.want)
			}
		}
	}
	apitest.LogCalls(t, sim)
}

// With Nova or Neutron in any kind of trouble nothing is NotFound when asked for directly.
func TestGetIsNeverNotFoundInTrouble(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 5, NamePrefix: "node-"})
	p := newProvider(t, sim, "")
	page := "<html><body>404 page of a proxy</body></html>"
	faults := map[string]ossim.Fault{
		"401":       {Status: 401},
		"403":       {Status: 403},
		"404 page":  {Status: 404, Body: page},
		"404 JSON":  {Status: 404, Body: `{"message": "The resource could not be found.", "code": "404 Not Found", "title": "Not Found"}`},
		"404 empty": {Status: 404, Body: " "},
		"404 other": {Status: 404, Body: `{"itemNotFound": {"code": 404, "message": "Instance 11111111-0000-4000-8000-000000000000 could not be found."}}`},
		"429":       {Status: 429, RetryAfter: time.Second},
		"500":       {Status: 500},
		"503":       {Status: 503, Body: page},
		"reset":     {Reset: true},
		"truncated": {Truncate: true},
		"no JSON":   {Body: page},
		"no key":    {Body: "{}"},
		"null":      {Body: `{"server": null, "servers": null}`},
		"other one": {Body: `{"server": {"id": "11111111-0000-4000-8000-000000000000"}}`},
		"empty":     {EmptyList: true},
	}
	for name, fault := range faults {
		for _, ref := range []cloud.InstanceRef{refsOf(servers)[0], {NodeName: "node-1"}, {NodeName: "node-gone"}} {
			t.Run(fmt.Sprintf("%s %s", name, ref.NodeName), func(t *testing.T) {
				fault.Service = "compute"
				defer sim.AddFault(fault)()
				if _, err := p.Instances.Get(apitest.Context(t), ref); cloud.IsNotFound(err) {
					t.Errorf("NotFound: %v", err)
				} else if err == nil && name != "empty" { // a direct read is no list
					t.Errorf("an answer without an error")
				}
			})
		}
	}
}

// A list that lacks half of the servers makes NotFound in Find, which Get then contradicts.
func TestShortListIsContradicted(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 6, NamePrefix: "node-"})
	p := newProvider(t, sim, "")
	defer sim.AddFault(ossim.Fault{Service: "compute", Path: "/servers/detail", ShortList: true})()
	missing := 0
	for n, r := range p.Instances.Find(apitest.Context(t), refsOf(servers)) {
		if r.Err == nil {
			continue
		}
		missing++
		got, err := p.Instances.Get(apitest.Context(t), refsOf(servers)[n])
		if err != nil {
			t.Errorf("get: %v", err)
			continue
		}
		checkInstance(t, wantInstance(servers[n]), got)
	}
	if missing != 3 {
		t.Errorf("%d servers missing from the list, the fault should have removed 3", missing)
	}
}

// A server's name counts as absent only when a full list agrees with the filtered one.
func TestGetByNameNeedsTwoLists(t *testing.T) {
	sim := ossim.ForTest(t)
	p := newProvider(t, sim, "")
	gone := cloud.InstanceRef{NodeName: "node-gone"}
	if _, err := p.Instances.Get(apitest.Context(t), gone); err == nil || cloud.KindOf(err) != cloud.KindUnknown {
		t.Errorf("a project without servers: %v of kind %v, want Unknown", err, cloud.KindOf(err))
	}
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"})
	found, err := p.Instances.Get(apitest.Context(t), cloud.InstanceRef{NodeName: "node-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Instances.Get(apitest.Context(t), gone); !cloud.IsNotFound(err) || cloud.ScopeOf(err) != found.Scope {
		t.Errorf("absent name: %v of kind %v in scope %q, want NotFound in %q", err, cloud.KindOf(err), cloud.ScopeOf(err), found.Scope)
	}
	// The filter finds nothing, once; the full list does.
	defer sim.AddFault(ossim.Fault{Service: "compute", Path: "/servers/detail", EmptyList: true, Times: 1})()
	got, err := p.Instances.Get(apitest.Context(t), cloud.InstanceRef{NodeName: "node-1"})
	if err != nil {
		t.Fatal(err)
	}
	checkInstance(t, wantInstance(servers[1]), got)
	// A server of a cell that is down has no name.
	remove := sim.AddFault(ossim.Fault{Service: "compute", Path: "/servers/detail", Body: `{"servers": []}`})
	sim.AddFault(ossim.Fault{Service: "compute", Path: "/servers/detail", Times: 0, Body: `{"servers": [{"id": "` + missingID + `", "status": "UNKNOWN"}]}`})
	if _, err := p.Instances.Get(apitest.Context(t), gone); cloud.KindOf(err) != cloud.KindUnknown || err == nil {
		t.Errorf("with a cell down: %v of kind %v, want Unknown", err, cloud.KindOf(err))
	}
	remove()
}

func TestFindFailsWithoutPorts(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
	p := newProvider(t, sim, "")
	defer sim.AddFault(ossim.Fault{Service: "network", Path: "/ports", Status: 503})()
	refs := append(refsOf(servers), cloud.InstanceRef{NodeName: "x", ProviderID: deadID})
	got := p.Instances.Find(apitest.Context(t), refs)
	for n, r := range got[:4] {
		if r.Err == nil || cloud.KindOf(r.Err) != cloud.KindUnavailable {
			t.Errorf("%v: %v, %v; an instance without its addresses is none", refs[n], r.Value, r.Err)
		}
	}
	if !cloud.IsNotFound(got[4].Err) {
		t.Errorf("missing server: %v", got[4].Err)
	}
}

// Only SHUTOFF is a shutdown: every other status may pass, or is not Nova's at all.
func TestOnlyShutoffIsShutdown(t *testing.T) {
	i := New(api.New(noSession{}), &config.Config{}, false)
	for status, want := range map[string]bool{
		"SHUTOFF": true, "ACTIVE": false, "BUILD": false, "REBOOT": false, "HARD_REBOOT": false, "PAUSED": false, "SUSPENDED": false,
		"RESCUE": false, "RESIZE": false, "VERIFY_RESIZE": false, "MIGRATING": false, "SHELVED": false, "SHELVED_OFFLOADED": false,
		"ERROR": false, "DELETED": false, "SOFT_DELETED": false, "UNKNOWN": false, "": false, "shutoff": false,
	} {
		if got := i.instance(&server{ID: missingID, Status: status}, &attachments{}).Shutdown; got != want {
			t.Errorf("status %q: shut down %t, want %t", status, got, want)
		}
	}
}

// noSession has no cloud.
type noSession struct{ api.Session }

func (noSession) Region() string { return "" }

func TestThrottledWithWait(t *testing.T) {
	sim := ossim.ForTest(t)
	p := newProvider(t, sim, "")
	defer sim.AddFault(ossim.Fault{Service: "compute", Status: 429, RetryAfter: 7 * time.Second})()
	_, err := p.Instances.Get(apitest.Context(t), cloud.InstanceRef{ProviderID: deadID})
	if cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != 7*time.Second {
		t.Errorf("%v of kind %v, wait %v", err, cloud.KindOf(err), cloud.RetryAfter(err))
	}
}

func TestRegionalProviderIDs(t *testing.T) {
	sim := ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	p := newProvider(t, sim, "")
	p.Instances.(*Instances).regional = true
	for _, id := range []string{"", "openstack:///" + servers[0].ID, "openstack://RegionOne/" + servers[0].ID} {
		got, err := p.Instances.Get(apitest.Context(t), cloud.InstanceRef{NodeName: "node-0", ProviderID: id})
		if err != nil {
			t.Fatal(err)
		}
		if want := "openstack://RegionOne/" + servers[0].ID; got.ProviderID != want {
			t.Errorf("by %q: provider ID %s, want %s", id, got.ProviderID, want)
		}
	}
}

func TestAccessAddressesAndMetadata(t *testing.T) {
	sim := ossim.ForTest(t)
	s := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-", Metadata: map[string]string{"hostname": "n0.example.org"}})[0]
	sim.SetServerAccessIPs(s.ID, "192.0.2.9", "2001:db8::9")
	p := newProvider(t, sim, "[Networking]\nipv6-support-disabled = true\n")
	got, err := p.Instances.Get(apitest.Context(t), refsOf([]ossim.Server{s})[0])
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.NodeAddress{internal(s.Addresses[0].String()), external("192.0.2.9"), hostName("n0.example.org")}
	if diff := cmp.Diff(want, got.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}
