package neutron

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func TestSubnetsAreBounded(t *testing.T) {
	s := NewSubnets(nil)
	for i := range 10_000 {
		s.remember(fmt.Sprint(i), netip.MustParsePrefix("192.0.2.0/24"))
	}
	if n := len(s.byID); n > maxSubnets {
		t.Errorf("%d subnets are remembered", n)
	}
	if _, ok := s.byID["9999"]; !ok {
		t.Error("the last one is forgotten")
	}
}

func TestSubnetsReadOnceWhatNeverChanges(t *testing.T) {
	sim := ossim.ForTest(t)
	c, _ := apitest.Open(t, sim, sim.CloudConf())
	s, d := NewSubnets(c), sim.Defaults()
	for range 3 {
		if cidr, err := s.CIDR(t.Context(), d.SubnetID); err != nil || !cidr.IsValid() {
			t.Fatalf("%v, %v", cidr, err)
		}
	}
	if n := apitest.Calls(sim); n != 1 {
		t.Errorf("%d calls for one CIDR", n)
	}
	for range 3 {
		if id, err := s.External(t.Context()); err != nil || id != d.ExternalNetworkID {
			t.Fatalf("external network %q, %v; want %q", id, err, d.ExternalNetworkID)
		}
	}
	if n := apitest.Calls(sim); n != 3 {
		t.Errorf("%d calls, want a list of networks and one of subnets more", n)
	}
	s.ForgetExternal()
	if _, err := s.External(t.Context()); err != nil || apitest.Calls(sim) != 5 {
		t.Errorf("%v after %d calls: it is not looked for again", err, apitest.Calls(sim))
	}
	if _, err := s.NetworkOf(t.Context(), "00000000-0000-4000-8000-00000000dead"); !cloud.IsNotFound(err) {
		t.Errorf("a subnet that does not exist: %v", err)
	}
}

// readPort is the port as it is, by a client of its own.
func readPort(t *testing.T, c *api.Client, id string) *Port {
	t.Helper()
	p, err := api.Get[Port](t.Context(), c.On(t.Context(), api.Network, "get port "+id), "port", "ports", id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPortChangeKeepsWhatOthersWrote(t *testing.T) {
	sim := ossim.ForTest(t)
	id := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0].PortIDs[0]
	c, _ := apitest.Open(t, sim, sim.CloudConf())
	can, err := new(Extensions).Get(t.Context(), c)
	if err != nil || !can["revision-if-match"] {
		t.Fatalf("%v, %v", can, err)
	}
	add := func(pair string, p *Port) error {
		change := PortChange{Op: "change port", Key: "allowed_address_pairs", Tries: 2}
		return change.Apply(t.Context(), c, can, p, func(p *Port) any {
			if slices.ContainsFunc(p.Pairs, func(a AddressPair) bool { return a.IPAddress == pair }) {
				return nil
			}
			return append(slices.Clone(p.Pairs), AddressPair{IPAddress: pair})
		})
	}
	stale, current := readPort(t, c, id), readPort(t, c, id)
	if err := add("10.244.1.0/24", current); err != nil {
		t.Fatal(err)
	}
	if err := add("10.244.2.0/24", stale); err != nil || len(stale.Pairs) != 2 || len(readPort(t, c, id).Pairs) != 2 {
		t.Errorf("%v: %v", err, stale.Pairs)
	}
	// Where Neutron refuses no change of an old revision, the port is read just before.
	guarded := can
	can = map[string]bool{}
	if err := add("10.244.4.0/24", current); err != nil || len(current.Pairs) != 3 || len(readPort(t, c, id).Pairs) != 3 {
		t.Errorf("without a guard: %v: %v", err, current.Pairs)
	}
	can = guarded
	stale = readPort(t, c, id)
	sim.ResetRequests()
	if err := add("10.244.2.0/24", stale); err != nil || apitest.Calls(sim) != 0 {
		t.Errorf("nothing to change: %v after %d calls", err, apitest.Calls(sim))
	}
	defer sim.AddFault(ossim.Fault{Service: "network", Method: http.MethodPut, Status: http.StatusPreconditionFailed})()
	if err := add("10.244.3.0/24", stale); !cloud.IsStale(err) || sim.Mutations() != 2 {
		t.Errorf("it kept changing: %v after %d attempts", err, sim.Mutations())
	}
}
