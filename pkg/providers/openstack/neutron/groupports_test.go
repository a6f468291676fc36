package neutron

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// portsTest are Services with a group each, and Nodes with a port each.
type portsTest struct {
	t       *testing.T
	sim     *ossim.Sim
	c       *api.Client
	s       *SecurityGroups
	refs    []cloud.LoadBalancerRef
	groups  []string // of the Services
	nodes   Members
	servers []ossim.Server
}

func newPortsTest(t *testing.T, nodes, services int) *portsTest {
	t.Helper()
	sim := ossim.ForTest(t)
	c, _ := apitest.Open(t, sim, sim.CloudConf())
	x := &portsTest{t: t, sim: sim, c: c, nodes: Members{}, servers: sim.SeedServers(ossim.Seed{Count: nodes, NamePrefix: "node-"})}
	x.nodes = x.members(x.servers)
	x.restart(services)
	for i := range services {
		x.refs = append(x.refs, cloud.LoadBalancerRef{Namespace: "default", Name: fmt.Sprint("s", i), UID: fmt.Sprint("uid-", i)})
		g, err := x.s.Create(t.Context(), fmt.Sprint("lb-sg-", i), "")
		if err != nil {
			t.Fatal(err)
		}
		x.groups = append(x.groups, g.ID)
	}
	return x
}

// restart makes a process that knows nothing. Its passes begin when n Services have come.
func (x *portsTest) restart(n int) {
	x.s = NewSecurityGroups(x.c, joint.Options{Tenants: n, Quiet: time.Hour, Most: time.Hour, Wait: time.Hour})
}

func (x *portsTest) members(servers []ossim.Server) Members {
	out := Members{}
	for _, s := range servers {
		for _, a := range s.Addresses {
			out[a] = Member{Node: s.Name, Server: s.ID}
		}
	}
	return out
}

// all has each Service do something at once, and returns the errors by its number.
func (x *portsTest) all(do func(ctx context.Context, i int) error) map[int]error {
	x.t.Helper()
	x.sim.ResetRequests()
	errs := map[int]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range x.refs {
		wg.Go(func() {
			if err := do(apitest.Context(x.t), i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errs
}

// place is Place of all Services; the answers are by their number.
func (x *portsTest) place(m func(i int) Membership) ([]Placement, map[int]error) {
	x.t.Helper()
	out := make([]Placement, len(x.refs))
	return out, x.all(func(ctx context.Context, i int) (err error) {
		out[i], err = x.s.Place(ctx, x.refs[i], m(i))
		return err
	})
}

// wants is what Services want that know of no port, but where known is given.
func (x *portsTest) wants(members, known Members) func(i int) Membership {
	return func(i int) Membership { return Membership{Group: x.groups[i], Members: members, Known: known} }
}

// writes are how often which port was written since the last request was forgotten.
func (x *portsTest) writes() (n int, once bool) {
	x.t.Helper()
	ports := map[string]int{}
	for _, r := range x.sim.Requests() {
		if r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/ports/") {
			ports[r.Path]++
			n++
		}
	}
	return n, n == len(ports)
}

// groupsOf are the groups of a server's port.
func (x *portsTest) groupsOf(s ossim.Server) []string {
	x.t.Helper()
	return slices.Sorted(slices.Values(readPort(x.t, x.c, s.PortIDs[0]).Groups))
}

// want fails unless the servers' ports have exactly some groups beside the one that they began with.
func (x *portsTest) want(when string, servers []ossim.Server, groups ...string) {
	x.t.Helper()
	want := slices.Sorted(slices.Values(append(slices.Clone(groups), x.sim.Defaults().SecurityGroupID)))
	for _, s := range servers {
		if got := x.groupsOf(s); !slices.Equal(got, want) {
			x.t.Errorf("%s, the port of %s has %d groups, want %d", when, s.Name, len(got), len(want))
		}
	}
}

// TestManyServicesWriteEachPortOnce: 500 Services that come at once write each Node's port once, and one
// list tells all of them what there is.
func TestManyServicesWriteEachPortOnce(t *testing.T) {
	const nodes, services = 50, 500
	x := newPortsTest(t, nodes+1, services)
	before, last := x.servers[:nodes], x.servers[nodes:]
	count := func(what string, writes, calls int) {
		t.Helper()
		if n, once := x.writes(); n != writes || !once {
			t.Errorf("%s: %d writes of ports, want %d, each of one port (once: %v)", what, n, writes, once)
		}
		if n := apitest.Calls(x.sim); n > writes+calls {
			t.Errorf("%s: %d calls, want %d beside the writes", what, n-writes, calls)
		}
	}
	foreign, err := x.s.Create(t.Context(), "foreign", "")
	if err != nil {
		t.Fatal(err)
	}
	others := readPort(t, x.c, x.servers[0].PortIDs[0])
	if err := x.s.write(t.Context(), map[*Port]*groupChange{others: {add: []string{foreign.ID}}}); err != nil {
		t.Fatal(err)
	}

	some := x.members(before)
	if _, errs := x.place(x.wants(some, nil)); len(errs) > 0 {
		t.Fatal(errs)
	}
	count("all come", nodes, 1)
	x.want("after all came", before[1:], x.groups...)
	x.want("after all came", before[:1], append(x.groups, foreign.ID)...)
	x.want("after all came", last)

	if _, errs := x.place(x.wants(x.nodes, some)); len(errs) > 0 {
		t.Fatal(errs)
	}
	count("one Node joins", 1, 1)
	x.want("after a Node joined", last, x.groups...)

	found, errs := x.place(x.wants(some, x.nodes))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	count("one Node leaves, and is still used", 0, 1)
	if _, errs = x.place(func(i int) Membership { return Membership{Group: x.groups[i], Drop: found[i].Left} }); len(errs) > 0 {
		t.Fatal(errs)
	}
	count("one Node has left", 1, 0)
	x.want("after the Node left", last)
	x.want("after the Node left", before[1:], x.groups...)

	x.restart(services)
	if _, errs := x.place(x.wants(some, nil)); len(errs) > 0 {
		t.Fatal(errs)
	}
	count("nothing has changed after a restart", 0, 1)
	if errs := x.all(func(ctx context.Context, i int) error { return x.s.Remove(ctx, x.refs[i], x.groups[i]) }); len(errs) > 0 {
		t.Fatal(errs)
	}
	count("all are deleted", nodes, 2) // the extensions are asked for once by each process
	x.want("after the deletion", before[1:])
	x.want("after the deletion", before[:1], foreign.ID)
}

// TestFewServicesRemoveNothingOfOthers: those that come first after a restart are not all.
func TestFewServicesRemoveNothingOfOthers(t *testing.T) {
	x := newPortsTest(t, 4, 6)
	if _, errs := x.place(x.wants(x.nodes, nil)); len(errs) > 0 {
		t.Fatal(errs)
	}
	x.restart(2)
	x.refs = x.refs[:2]
	fewer := x.members(x.servers[:3])
	found, errs := x.place(x.wants(fewer, nil))
	if len(errs) > 0 || len(found[0].Left) != 1 {
		t.Fatal(found, errs)
	}
	if _, errs = x.place(func(i int) Membership { return Membership{Group: x.groups[i], Drop: found[i].Left} }); len(errs) > 0 {
		t.Fatal(errs)
	}
	x.want("on the Node that two have left", x.servers[3:], x.groups[2:]...)
	x.want("on the others", x.servers[:3], x.groups...)
}

// TestServiceWhoseGroupIsGoneIsTheOnlyOneRefused: Neutron refuses each port's whole list because of it.
func TestServiceWhoseGroupIsGoneIsTheOnlyOneRefused(t *testing.T) {
	const services, bad = 16, 5
	x := newPortsTest(t, 3, services)
	if err := x.s.Delete(t.Context(), SecurityGroup{ID: x.groups[bad]}); err != nil {
		t.Fatal(err)
	}
	_, errs := x.place(x.wants(x.nodes, nil))
	if len(errs) != 1 || cloud.KindOf(errs[bad]) != cloud.KindInvalid {
		t.Errorf("errors %v, want that of Service %d only", errs, bad)
	}
	x.want("of the others", x.servers, slices.Delete(slices.Clone(x.groups), bad, bad+1)...)
	if n := x.sim.Mutations(); n > 7*3 {
		t.Errorf("%d attempts to write 3 ports for %d Services", n, services)
	}
}

// TestNodeOfAnotherServerAtTheSameAddressGetsTheGroup: that the server before had it says nothing of its port.
func TestNodeOfAnotherServerAtTheSameAddressGetsTheGroup(t *testing.T) {
	x := newPortsTest(t, 1, 1)
	known := maps.Clone(x.nodes)
	for a, m := range known {
		m.Server = "00000000-0000-4000-8000-000000000001"
		known[a] = m
	}
	found, errs := x.place(x.wants(x.nodes, known))
	if len(errs) > 0 || found[0].Given != 1 {
		t.Errorf("%+v, %v, want the group given to one port", found, errs)
	}
	x.want("of the new server", x.servers, x.groups...)
}

// TestCutOffWritesOfPortsAreGoneOnWith: whatever call is lost, and whether it was carried out.
func TestCutOffWritesOfPortsAreGoneOnWith(t *testing.T) {
	for _, after := range []bool{false, true} {
		x := newPortsTest(t, 3, 4)
		var once sync.Once
		stop := x.sim.OnMutation(func(m ossim.Mutation) {
			if m.After == after {
				once.Do(m.Drop)
			}
		})
		if _, errs := x.place(x.wants(x.nodes, nil)); len(errs) != 4 {
			t.Errorf("after=%v: errors %v, want one for each Service", after, errs)
		}
		stop()
		x.restart(4)
		if _, errs := x.place(x.wants(x.nodes, nil)); len(errs) > 0 {
			t.Errorf("after=%v: %v", after, errs)
		}
		x.want("after the next process", x.servers, x.groups...)
		if n, _ := x.writes(); n > 1 {
			t.Errorf("after=%v: %d ports are written, want the one that was cut off", after, n)
		}
	}
}

// TestPortsThatCannotBeToldApart: a Node without a server's ID whose address two ports have gets none.
func TestPortsThatCannotBeToldApart(t *testing.T) {
	m := Membership{Group: "g", Members: Members{}}
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		m.Members[netip.MustParseAddr(a)] = Member{Node: a}
	}
	seen := &portsSeen{byID: map[string]*Port{}, byAddress: map[netip.Addr][]*Port{}, byGroup: map[string][]*Port{}}
	port := func(id, addr string, groups ...string) *Port {
		return &Port{ID: id, DeviceOwner: "compute:az", Groups: groups, FixedIPs: []FixedIP{{IPAddress: addr}}}
	}
	seen.add([]*Port{port("a", "10.0.0.1"), port("b", "10.0.0.1"), port("c", "10.0.0.2", "g"), port("d", "10.0.0.2"), port("e", "10.0.0.9", "g")})
	lacking, without := m.lacking(seen)
	if len(lacking) > 0 || !slices.Equal(without, []string{"10.0.0.1", "10.0.0.3"}) {
		t.Errorf("%v get the group, %v have no port", lacking, without)
	}
	if left := m.left(seen); len(left) != 1 || left[0].ID != "e" {
		t.Errorf("left are %v, want that of no member", left)
	}
}
