package router

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// routeLab is a simulated cloud with servers and what the tests look at.
type routeLab struct {
	t       *testing.T
	sim     *ossim.Sim
	routes  *Routes
	cluster cloud.Cluster
	servers []ossim.Server
}

func newRouteLab(t *testing.T, servers int) *routeLab {
	sim := ossim.ForTest(t)
	lab := &routeLab{t: t, sim: sim, servers: sim.SeedServers(ossim.Seed{Count: servers, NamePrefix: "node-"})}
	lab.routes = newProvider(t, sim, "").Routes.(*Routes)
	lab.cluster = cloud.Cluster{Name: "kubernetes", UID: "uid-1", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10::/32")}}
	return lab
}

// route is the pod route of the n-th server.
func (l *routeLab) route(n int) cloud.Route {
	s := l.servers[n]
	return cloud.Route{
		Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n / 256), byte(n % 256)}), 32),
		NextHop:     s.Addresses[0], Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID},
	}
}

func (l *routeLab) someRoutes(from, to int) []cloud.Route {
	var out []cloud.Route
	for n := from; n < to; n++ {
		out = append(out, l.route(n))
	}
	return out
}

func (l *routeLab) apply(add, remove []cloud.Route) []error {
	return l.routes.Apply(apitest.Context(l.t), l.cluster, add, remove)
}

func (l *routeLab) mustApply(add, remove []cloud.Route) {
	l.t.Helper()
	for n, err := range l.apply(add, remove) {
		if err != nil {
			l.t.Fatalf("route %d: %v", n, err)
		}
	}
}

// put changes something as an operator would.
func (l *routeLab) put(path string, body any) {
	l.t.Helper()
	ctx := apitest.Context(l.t)
	if _, err := api.Put[any](ctx, l.routes.c.On(ctx, api.Network, "put"), "", api.Change{Path: []string{path}, Body: body}); err != nil {
		l.t.Fatalf("put %s: %v", path, err)
	}
}

// state is all that Apply may change: routes and tags of the router, address pairs of the ports.
type routeState struct {
	Routes, Tags []string
	Pairs        map[string][]string // by server name
}

func (l *routeLab) state() routeState {
	l.t.Helper()
	ctx := apitest.Context(l.t)
	table, err := l.routes.readTable(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	s := routeState{Tags: slices.Sorted(slices.Values(table.Tags)), Pairs: map[string][]string{}}
	for _, e := range table.Routes {
		s.Routes = append(s.Routes, e.Destination+" via "+e.NextHop)
	}
	slices.Sort(s.Routes)
	ports, err := api.List[neutron.Port](ctx, l.routes.c.On(ctx, api.Network, "list ports"), "ports", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, p := range ports {
		for _, srv := range l.servers {
			for _, pair := range p.Pairs {
				if srv.ID == p.DeviceID {
					s.Pairs[srv.Name] = append(s.Pairs[srv.Name], pair.IPAddress)
				}
			}
		}
	}
	return s
}

func (l *routeLab) list() []cloud.Route {
	l.t.Helper()
	got, err := l.routes.List(apitest.Context(l.t), l.cluster)
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

func diffState(want, got routeState) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// 100 routes in one set: one change of the table and, what cannot be batched, one change of
// each port; asked for again, one record for each route.
func TestRoutesAsASet(t *testing.T) {
	const n = 100
	lab := newRouteLab(t, n)
	before := lab.state()
	lab.sim.ResetRequests()
	lab.mustApply(lab.someRoutes(0, n), nil)
	// Reads: router, extensions, two lists of ports (50 next hops each). Changes: table, ports.
	if got := apitest.Calls(lab.sim); got != 4+1+n {
		t.Errorf("%d calls to add %d routes, want %d", got, n, 4+1+n)
		apitest.LogCalls(t, lab.sim)
	}
	lab.sim.ResetRequests()
	lab.mustApply(lab.someRoutes(0, n), nil)
	if got := apitest.Calls(lab.sim); got != 1+n {
		t.Errorf("%d calls to record %d routes, want %d", got, n, 1+n)
		apitest.LogCalls(t, lab.sim)
	}
	got := lab.list()
	if len(got) != n {
		t.Fatalf("%d routes, want %d", len(got), n)
	}
	for _, r := range got {
		if !r.Ours {
			t.Errorf("%v is not ours", r)
		}
	}
	state := lab.state()
	for i, s := range lab.servers {
		if diff := cmp.Diff([]string{lab.route(i).Destination.String()}, state.Pairs[s.Name]); diff != "" {
			t.Errorf("address pairs of %s (-want +got):\n%s", s.Name, diff)
		}
	}
	other := lab.cluster
	other.UID = "uid-2"
	theirs, err := lab.routes.List(apitest.Context(t), other)
	if err != nil || len(theirs) != n || theirs[0].Ours {
		t.Errorf("another cluster sees %d routes, ours %v, %v", len(theirs), theirs[0].Ours, err)
	}

	lab.sim.ResetRequests()
	lab.mustApply(lab.someRoutes(0, n), lab.someRoutes(n, n))
	if m := lab.sim.Mutations(); m != 0 {
		t.Errorf("%d changes when all is there already", m)
	}
	lab.mustApply(nil, lab.someRoutes(0, n))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
	lab.sim.ResetRequests()
	lab.mustApply(nil, lab.someRoutes(0, n))
	if m := lab.sim.Mutations(); m != 0 {
		t.Errorf("%d changes when all is gone already", m)
	}
}

// However many records there are to write and to remove, tags that somebody else sets
// meanwhile stay.
func TestRecordsLeaveLateTagsAlone(t *testing.T) {
	const n = 20
	lab := newRouteLab(t, n)
	var late []string
	change := func(tag string, add, remove []cloud.Route) {
		t.Helper()
		late = append(late, tag)
		var once sync.Once
		stop := lab.sim.OnMutation(func(m ossim.Mutation) {
			if !m.After && strings.Contains(m.Path, "/tags") && !strings.HasSuffix(m.Path, tag) {
				once.Do(func() { lab.put("routers/"+lab.routes.router+"/tags/"+tag, nil) })
			}
		})
		defer stop()
		lab.mustApply(add, remove)
	}
	lab.mustApply(lab.someRoutes(0, n), nil) // so many are recorded when they are asked for again
	change("late-1", lab.someRoutes(0, n), nil)
	if got := len(lab.state().Tags); got != n+1 {
		t.Errorf("%d tags, want a record of each route and the late tag", got)
	}
	change("late-2", nil, lab.someRoutes(0, n))
	if diff := cmp.Diff(late, lab.state().Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// An answer without a table of routes is not an empty table: nothing is written back and no
// record is dropped.
func TestMissingTableIsNotEmpty(t *testing.T) {
	lab := newRouteLab(t, 2)
	lab.mustApply(lab.someRoutes(0, 1), nil)
	before := lab.state()
	for method, path := range map[string]string{http.MethodGet: "", http.MethodPut: "/remove_extraroutes"} {
		remove := lab.sim.AddFault(ossim.Fault{Service: "network", Method: method, Path: "/routers/" + lab.routes.router + path,
			Body: fmt.Sprintf(`{"router": {"id": %q, "tags": [], "revision_number": 1}}`, lab.routes.router)})
		if _, err := lab.routes.List(apitest.Context(t), lab.cluster); (err == nil) == (method == http.MethodGet) {
			t.Errorf("list while %s lacks the routes: %v", method, err)
		}
		for _, err := range lab.apply(nil, lab.someRoutes(0, 1)) {
			if err == nil || !strings.Contains(err.Error(), "extraroute") {
				t.Errorf("%s lacks the routes: %v", method, err)
			}
		}
		remove()
		if diff := cmp.Diff(before.Tags, lab.state().Tags); diff != "" {
			t.Errorf("records after a %s without routes (-before +after):\n%s", method, diff)
		}
	}
	lab.mustApply(nil, lab.someRoutes(0, 1))
	if left := lab.state(); len(left.Routes)+len(left.Tags)+len(left.Pairs) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

func TestRoutesIdleCost(t *testing.T) {
	lab := newRouteLab(t, 3)
	lab.mustApply(lab.someRoutes(0, 3), nil)
	lab.sim.ResetRequests()
	lab.list()
	if got := apitest.Calls(lab.sim); got != 1 {
		t.Errorf("%d calls to list, want 1", got)
	}
	lab.sim.ResetRequests()
	if lab.apply(nil, nil) != nil || apitest.Calls(lab.sim) != 0 {
		t.Errorf("an empty change made %d calls", apitest.Calls(lab.sim))
	}
}

// What operators made stays: routes inside and outside the pod CIDRs, tags, address pairs,
// even a pair that one of our routes needs. A route that is asked for and there already is
// recorded and not changed.
func TestRoutesOfOthersStay(t *testing.T) {
	lab := newRouteLab(t, 3)
	hop := lab.servers[0].Addresses[0].String()
	router := lab.routes.router
	lab.put("routers/"+router, map[string]any{"router": map[string]any{"routes": []routeEntry{
		{"192.168.77.0/24", hop}, {"10.244.200.0/24", hop}, {lab.route(2).Destination.String(), lab.servers[2].Addresses[0].String()},
	}}})
	begin := recordTag(lab.cluster, lab.route(0))[:len("isthmus-123456-")]
	lab.put("routers/"+router+"/tags", map[string]any{"tags": []string{"operators", "isthmus-", "isthmus-of-mine", begin + "mine", begin + "AAAAAAAAAAAA_"}})
	lab.put("ports/"+lab.servers[0].PortIDs[0], map[string]any{"port": map[string]any{"allowed_address_pairs": []neutron.AddressPair{
		{IPAddress: "10.99.0.0/16"}, {IPAddress: lab.route(0).Destination.Addr().String()}}}})
	before := lab.state()

	lab.mustApply(lab.someRoutes(0, 3), nil)
	ours := map[string]bool{}
	for _, r := range lab.list() {
		ours[r.Destination.String()] = r.Ours
	}
	want := map[string]bool{"10.244.200.0/24": false, lab.route(0).Destination.String(): true, lab.route(1).Destination.String(): true, lab.route(2).Destination.String(): true}
	if diff := cmp.Diff(want, ours); diff != "" {
		t.Errorf("routes in the pod CIDRs and whether they are ours (-want +got):\n%s", diff)
	}
	if pairs := lab.state().Pairs["node-2"]; pairs != nil {
		t.Errorf("the port of a route that an operator made got address pairs %v", pairs)
	}
	lab.mustApply(nil, lab.someRoutes(0, 2))
	before.Tags = slices.Sorted(slices.Values(append(before.Tags, recordTag(lab.cluster, lab.route(2)))))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("what others made changed (-before +after):\n%s", diff)
	}
}

// noAtomic is the answer of a Neutron without extraroute-atomic.
const noAtomic = `{"extensions": [{"alias": "extraroute"}, {"alias": "standard-attr-tag"}, {"alias": "revision-if-match"}]}`

func TestRoutesWholeTable(t *testing.T) {
	lab := newRouteLab(t, 3)
	lab.sim.AddFault(ossim.Fault{Service: "network", Path: "/extensions", Body: noAtomic})
	hop := lab.servers[0].Addresses[0].String()
	operators := routeEntry{"192.168.77.0/24", hop}
	// An operator adds a route between our read and our write, once.
	var raced atomic.Bool
	lab.sim.OnMutation(func(m ossim.Mutation) {
		if m.After || m.Method != http.MethodPut || m.Path != "/routers/"+lab.routes.router || raced.Swap(true) {
			return
		}
		lab.put("routers/"+lab.routes.router, map[string]any{"router": map[string]any{"routes": []routeEntry{operators}}})
	})
	before := lab.state()
	lab.mustApply(lab.someRoutes(0, 3), nil)
	if !raced.Load() {
		t.Fatal("the whole table was not written")
	}
	for _, r := range lab.sim.Requests() {
		if strings.HasSuffix(r.Path, "_extraroutes") {
			t.Errorf("used %s without the extension", r.Path)
		}
	}
	if got := lab.list(); len(got) != 3 {
		t.Errorf("routes %v, want 3", got)
	}
	before.Routes = []string{operators.Destination + " via " + operators.NextHop}
	lab.mustApply(nil, lab.someRoutes(0, 3))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// Routes that somebody else has made and that are asked for get a record each, with and
// without extraroute-atomic, and nothing else changes. What a crash in the middle of it has
// left out is made good by asking again. The address pairs stay the other one's.
func TestComplaintRoutesOfAnotherControllerAreTakenOver(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		const n = 3
		lab := newRouteLab(t, n)
		if !atomic {
			lab.sim.HideExtension("extraroute-atomic")
		}
		var entries []routeEntry
		for _, r := range lab.someRoutes(0, n) {
			entries = append(entries, entryOf(r))
		}
		lab.put("routers/"+lab.routes.router, map[string]any{"router": map[string]any{"routes": entries}})
		for i, e := range entries {
			lab.put("ports/"+lab.servers[i].PortIDs[0], map[string]any{"port": map[string]any{"allowed_address_pairs": []neutron.AddressPair{{IPAddress: e.Destination}}}})
		}
		want := lab.state()
		for _, r := range lab.someRoutes(0, n) {
			want.Tags = append(want.Tags, recordTag(lab.cluster, r))
		}
		slices.Sort(want.Tags)
		lab.crashAt(2, true, lab.someRoutes(0, n), nil)
		lab.sim.ResetRequests()
		lab.mustApply(lab.someRoutes(0, n), nil)
		if diff := diffState(want, lab.state()); diff != "" {
			t.Errorf("atomic %t: state (-want +got):\n%s", atomic, diff)
		}
		if m := lab.sim.Mutations(); m != 1 {
			t.Errorf("atomic %t: %d changes, want the one record that the crash has left", atomic, m)
		}
		for _, r := range lab.list() {
			if !r.Ours {
				t.Errorf("atomic %t: %v is not ours", atomic, r)
			}
		}
		lab.mustApply(nil, lab.list())
		if left := lab.state(); len(left.Routes)+len(left.Tags) > 0 || len(left.Pairs) != n {
			t.Errorf("atomic %t: left is %+v, want the address pair that another one has made", atomic, left)
		}
	}
}

// A route of another controller whose record cannot be written is not ours yet, and the one who asked is told.
func TestRouteThatIsNotRecordedIsAnError(t *testing.T) {
	lab := newRouteLab(t, 2)
	var entries []routeEntry
	for _, r := range lab.someRoutes(0, 2) {
		entries = append(entries, entryOf(r))
	}
	lab.put("routers/"+lab.routes.router, map[string]any{"router": map[string]any{"routes": entries}})
	remove := lab.sim.AddFault(ossim.Fault{Service: "network", Method: "PUT", Path: "/routers/" + lab.routes.router + "/tags/", Status: 500})
	for n, err := range lab.apply(lab.someRoutes(0, 2), nil) {
		if err == nil {
			t.Errorf("route %d has no record, and that is no error", n)
		}
	}
	remove()
	for _, r := range lab.list() {
		if r.Ours {
			t.Errorf("%v is ours", r)
		}
	}
	lab.mustApply(lab.someRoutes(0, 2), nil)
}

// A process that dies between any two calls, or does not hear the answer of one, leaves
// nothing that the next attempt does not put right.
func TestRoutesCrash(t *testing.T) {
	for _, drop := range []string{"answer lost", "call lost"} {
		for crash := 1; ; crash++ {
			lab := newRouteLab(t, 3)
			before := lab.state()
			want := func() routeState {
				lab.mustApply(lab.someRoutes(0, 2), nil)
				s := lab.state()
				lab.mustApply(nil, lab.someRoutes(0, 2))
				return s
			}()
			name := fmt.Sprintf("%s at change %d", drop, crash)
			added := lab.crashAt(crash, drop == "answer lost", lab.someRoutes(0, 2), nil)
			lab.mustApply(lab.missing(0, 2), nil)
			if diff := diffState(want, lab.state()); diff != "" {
				t.Errorf("add, %s (-want +got):\n%s", name, diff)
			}
			lab.mustApply(nil, lab.someRoutes(0, 2))
			lab.crashAt(crash, drop == "answer lost", lab.someRoutes(0, 2), nil)
			lab.clean()
			if diff := diffState(before, lab.state()); diff != "" {
				t.Errorf("add and never asked again, %s (-want +got):\n%s", name, diff)
			}
			lab.mustApply(lab.someRoutes(0, 2), nil)
			removed := lab.crashAt(crash, drop == "answer lost", nil, lab.someRoutes(0, 2))
			lab.clean()
			if diff := diffState(before, lab.state()); diff != "" {
				t.Errorf("remove, %s (-want +got):\n%s", name, diff)
			}
			lab.sim.Close()
			if !added && !removed {
				if crash < 6 {
					t.Errorf("only %d changes were tried", crash)
				}
				break
			}
			if crash > 30 {
				t.Fatal("never ends")
			}
		}
	}
}

// missing are the routes that the controller finds missing.
func (l *routeLab) missing(from, to int) []cloud.Route {
	there := l.list()
	return slices.DeleteFunc(l.someRoutes(from, to), func(r cloud.Route) bool {
		return slices.ContainsFunc(there, func(o cloud.Route) bool { return o.Destination == r.Destination && o.NextHop == r.NextHop })
	})
}

// clean does what a controller does that wants no routes, and then some other change.
func (l *routeLab) clean() {
	l.t.Helper()
	l.mustApply(nil, l.list())
	l.mustApply(l.someRoutes(2, 3), nil)
	l.mustApply(nil, l.someRoutes(2, 3))
}

// crashAt applies, with the connection cut at the n-th change and all later ones refused.
// It reports whether it came to that.
func (l *routeLab) crashAt(n int, carriedOut bool, add, remove []cloud.Route) bool {
	ctx, cancel := context.WithCancel(apitest.Context(l.t))
	defer cancel()
	var mu sync.Mutex
	seen, crashed := 0, false
	stop := l.sim.OnMutation(func(m ossim.Mutation) {
		mu.Lock()
		defer mu.Unlock()
		if !m.After {
			seen++
		}
		switch {
		case seen < n || (seen == n && m.After != carriedOut):
		default:
			m.Drop()
			crashed = true
		}
	})
	defer stop()
	fresh := newRouter(l.routes.c, l.routes.router, &neutron.Extensions{})
	fresh.Apply(ctx, l.cluster, add, remove)
	mu.Lock()
	defer mu.Unlock()
	return crashed
}

// island makes a network that the router does not reach, with a port that has the address.
func (l *routeLab) island(cidr, address string) {
	l.t.Helper()
	ctx := apitest.Context(l.t)
	sc, err := l.routes.c.Service(ctx, api.Network)
	if err != nil {
		l.t.Fatal(err)
	}
	n, err := networks.Create(ctx, sc, networks.CreateOpts{Name: "island"}).Extract()
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := subnets.Create(ctx, sc, subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: 4}).Extract(); err != nil {
		l.t.Fatal(err)
	}
	if _, err := ports.Create(ctx, sc, ports.CreateOpts{NetworkID: n.ID, FixedIPs: []ports.IP{{IPAddress: address}}}).Extract(); err != nil {
		l.t.Fatal(err)
	}
}

// One route that cannot be fails alone, and with its own error.
func TestRoutesOneBadAmongMany(t *testing.T) {
	lab := newRouteLab(t, 5)
	routes := lab.someRoutes(0, 5)
	lab.island("198.51.100.0/24", "198.51.100.7")
	routes[2].NextHop, routes[2].Node = netip.MustParseAddr("198.51.100.7"), cloud.InstanceRef{}
	routes = append(routes,
		cloud.Route{Destination: netip.MustParsePrefix("10.244.9.0/24"), NextHop: netip.MustParseAddr("198.51.100.9")},
		cloud.Route{Destination: netip.MustParsePrefix("10.244.8.0/24")},
		cloud.Route{Destination: netip.MustParsePrefix("fd00:10::/64"), NextHop: lab.servers[0].Addresses[0]})
	want := []cloud.Kind{-1, -1, cloud.KindInvalid, -1, -1, cloud.KindUnknown, cloud.KindInvalid, cloud.KindInvalid}
	for n, err := range lab.apply(routes, nil) {
		if (want[n] == -1) != (err == nil) || (err != nil && cloud.KindOf(err) != want[n]) {
			t.Errorf("route %d: %v of kind %v, want %v", n, err, cloud.KindOf(err), want[n])
		}
	}
	if got := lab.list(); len(got) != 4 {
		t.Errorf("routes %v, want 4", got)
	}
	apitest.LogCalls(t, lab.sim)
}

// The same address on a network that the router does not reach is another port.
func TestRoutesAmbiguousNextHop(t *testing.T) {
	for _, known := range []bool{true, false} {
		lab := newRouteLab(t, 1)
		route := lab.route(0)
		lab.island(netip.PrefixFrom(route.NextHop, 24).Masked().String(), route.NextHop.String())
		if !known {
			route.Node = cloud.InstanceRef{}
		}
		lab.mustApply([]cloud.Route{route}, nil)
		if pairs := lab.state().Pairs["node-0"]; len(pairs) != 1 {
			t.Errorf("node known %v: address pairs of the node's port: %v, want one", known, pairs)
		}
	}
}

// Trouble with the router is never a route that is not found, and changes nothing.
func TestRoutesInTrouble(t *testing.T) {
	lab := newRouteLab(t, 2)
	router := "/routers/" + lab.routes.router
	missing := `{"NeutronError": {"type": "RouterNotFound", "message": "Router ` + lab.routes.router + ` could not be found", "detail": ""}}`
	tests := map[string]struct {
		fault ossim.Fault
		want  cloud.Kind
	}{
		"router gone": {ossim.Fault{Path: router, Status: 404, Body: missing}, cloud.KindInvalid},
		"404 page":    {ossim.Fault{Path: router, Status: 404, Body: "<html>"}, cloud.KindUnknown},
		"throttled":   {ossim.Fault{Path: router, Status: 429}, cloud.KindThrottled},
		"denied":      {ossim.Fault{Path: router, Status: 403}, cloud.KindDenied},
		"truncated":   {ossim.Fault{Path: router, Truncate: true}, cloud.KindUnknown},
		"no router":   {ossim.Fault{Path: router, Body: "{}"}, cloud.KindUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.fault.Service = "network"
			defer lab.sim.AddFault(tt.fault)()
			lab.sim.ResetRequests()
			if _, err := lab.routes.List(apitest.Context(t), lab.cluster); err == nil || cloud.KindOf(err) != tt.want {
				t.Errorf("list: %v of kind %v, want %v", err, cloud.KindOf(err), tt.want)
			}
			for _, err := range lab.apply(lab.someRoutes(0, 1), lab.someRoutes(1, 2)) {
				if err == nil || cloud.KindOf(err) != tt.want {
					t.Errorf("apply: %v of kind %v, want %v", err, cloud.KindOf(err), tt.want)
				}
			}
			if m := lab.sim.Mutations(); m != 0 {
				t.Errorf("%d changes", m)
			}
		})
	}
}

// What a crash left stays on record until its cleaning up has worked.
func TestRoutesAbandonedAndInTrouble(t *testing.T) {
	lab := newRouteLab(t, 3)
	before := lab.state()
	lab.crashAt(2, true, lab.someRoutes(0, 1), nil) // record and address pair are made
	if left := lab.state(); len(left.Tags) != 1 || len(left.Pairs["node-0"]) != 1 || len(left.Routes) != 0 {
		t.Fatalf("the crash left %+v", left)
	}
	remove := lab.sim.AddFault(ossim.Fault{Service: "network", Method: "PUT", Path: "/ports/" + lab.servers[0].PortIDs[0], Status: 500})
	lab.mustApply(lab.someRoutes(2, 3), nil) // its own change works, the cleaning up does not
	remove()
	lab.mustApply(nil, lab.someRoutes(2, 3))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// BenchmarkRoutesOfManyNodes is what a pass over a large table costs beside its requests.
func BenchmarkRoutesOfManyNodes(b *testing.B) {
	const n = 5000
	cluster := cloud.Cluster{UID: "x", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	table := &routeTable{ID: "r", Routes: []routeEntry{}}
	var items []*routeItem
	for i := range n {
		route := cloud.Route{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i / 256), byte(i % 256), 0}), 24), NextHop: netip.AddrFrom4([4]byte{172, 16, byte(i / 256), byte(i % 256)})}
		table.Routes, table.Tags = append(table.Routes, entryOf(route)), append(table.Tags, recordTag(cluster, route)+marks.Beside)
		items = append(items, &routeItem{route: route, add: true, port: &neutron.Port{}})
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			table.index()
			if got := table.list(cluster); len(got) != n {
				b.Fatal(len(got))
			}
		}
	})
	b.Run("plan records", func(b *testing.B) {
		batch := &routeBatch{r: newRouter(nil, "r", nil), cluster: cluster, table: table, items: items}
		for b.Loop() {
			batch.addAbandoned()
			want, stale := batch.missingRecords(func(*routeItem) bool { return true }), batch.staleRecords()
			if len(want)+len(stale) > 0 {
				b.Fatal(want, stale)
			}
		}
	})
}
