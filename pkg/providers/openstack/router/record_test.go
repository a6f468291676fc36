package router

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// many are more routes than are recorded before they are made.
const many = recordsAhead + 5

// refuseTag makes the writing of the route's record fail, of every record without one, until
// the returned function is called.
func (l *routeLab) refuseTag(of ...cloud.Route) (stop func()) {
	path := "/routers/" + l.routes.router + "/tags/*"
	if len(of) > 0 {
		path = strings.TrimSuffix(path, "*") + recordTag(l.cluster, of[0]) + marks.Beside
	}
	return l.sim.AddFault(ossim.Fault{Service: "network", Method: http.MethodPut, Path: path, Status: 500})
}

// ours are the destinations of the routes that are recorded.
func (l *routeLab) ours() []string {
	var out []string
	for _, r := range l.list() {
		if r.Ours {
			out = append(out, r.Destination.String())
		}
	}
	slices.Sort(out)
	return out
}

// A record that cannot be written costs no route, not even its own, and no other record; it
// is written when the route is asked for again, and then nothing is forgotten of the route.
func TestRouteIsMadeWhenItsRecordFails(t *testing.T) {
	const n = 5
	lab := newRouteLab(t, n)
	before := lab.state()
	stop := lab.refuseTag(lab.route(2))
	lab.mustApply(lab.someRoutes(0, n), nil)
	if got := lab.state(); len(got.Routes) != n || len(got.Pairs) != n || len(got.Tags) != n-1 {
		t.Errorf("with one record refused there are %d routes, %d ports with address pairs and %d records, want %d, %d and %d", len(got.Routes), len(got.Pairs), len(got.Tags), n, n, n-1)
	}
	if err := lab.apply(lab.someRoutes(2, 3), nil)[0]; err == nil {
		t.Error("a route that is only to be recorded and is not has no error")
	}
	stop()
	lab.mustApply(lab.someRoutes(2, 3), nil)
	if got := len(lab.ours()); got != n {
		t.Errorf("%d routes are recorded, want %d", got, n)
	}
	lab.mustApply(nil, lab.someRoutes(0, n))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// Many routes do not wait for their records, and are made while none can be written.
func TestManyRoutesComeBeforeTheirRecords(t *testing.T) {
	lab := newRouteLab(t, many)
	before := lab.state()
	stop := lab.refuseTag()
	lab.mustApply(lab.someRoutes(0, many), nil)
	if got := lab.state(); len(got.Routes) != many || len(got.Pairs) != many || len(got.Tags) != 0 {
		t.Errorf("there are %d routes, %d ports with address pairs and %d records, want %d, %d and none", len(got.Routes), len(got.Pairs), len(got.Tags), many, many)
	}
	lab.sim.ResetRequests()
	for n, err := range lab.apply(lab.someRoutes(0, many), nil) {
		if err == nil {
			t.Errorf("route %d is not recorded, but there is no error", n)
		}
	}
	if got := lab.sim.Mutations(); got != recordFailures {
		t.Errorf("%d records were tried while all fail, want %d", got, recordFailures)
	}
	stop()
	lab.mustApply(lab.someRoutes(0, many), nil)
	if got := len(lab.ours()); got != many {
		t.Errorf("%d routes are recorded, want %d", got, many)
	}
	lab.mustApply(nil, lab.someRoutes(0, many)) // the address pairs, too, are still known to be ours
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}

// A process that dies while it makes many routes costs none of them: its successor finds them,
// makes and records what is missing, and removes them all. At most an address pair stays whose
// maker nobody knows. Another cluster on the router, asked to clean up, touches nothing.
func TestManyRoutesCrash(t *testing.T) {
	for _, drop := range []string{"answer lost", "call lost"} {
		for _, crash := range []int{1, 2, many, many + 1} {
			lab := newRouteLab(t, many+1)
			lab.put("routers/"+lab.routes.router, map[string]any{"router": map[string]any{"routes": []routeEntry{
				{"192.168.77.0/24", lab.servers[0].Addresses[0].String()}, {"10.244.200.0/24", lab.servers[0].Addresses[0].String()}}}})
			before := lab.state()
			if crashed := lab.crashAt(crash, drop == "answer lost", lab.someRoutes(0, many), nil); crashed != (crash <= many+1) {
				t.Fatalf("%s at change %d: crashed %t", drop, crash, crashed)
			}
			left := lab.state()
			other := *lab
			other.cluster.UID = "uid-2"
			other.mustApply(other.someRoutes(many, many+1), nil)
			other.mustApply(nil, other.someRoutes(many, many+1))
			if diff := diffState(left, lab.state()); diff != "" {
				t.Errorf("%s at change %d: another cluster changed (-before +after):\n%s", drop, crash, diff)
			}
			lab.routes = newRouter(lab.routes.c, lab.routes.router, &neutron.Extensions{})
			lab.mustApply(lab.missing(0, many), nil)
			lab.mustApply(lab.unrecorded(0, many), nil)
			if got := lab.state(); len(lab.ours()) != many || len(got.Routes) != many+2 || len(got.Pairs) != many {
				t.Errorf("%s at change %d: %d routes are recorded, there are %d routes and %d ports with address pairs", drop, crash, len(lab.ours()), len(got.Routes), len(got.Pairs))
			}
			lab.mustApply(nil, lab.someRoutes(0, many))
			after := lab.state()
			after.Pairs = nil
			if diff := cmp.Diff(routeState{Routes: before.Routes, Tags: nil}, after); diff != "" {
				t.Errorf("%s at change %d: left (-want +got):\n%s", drop, crash, diff)
			}
			lab.sim.Close()
		}
	}
}

// unrecorded are the routes that the controller finds to lead to their Nodes without a record.
func (l *routeLab) unrecorded(from, to int) []cloud.Route {
	there := l.list()
	return slices.DeleteFunc(l.someRoutes(from, to), func(r cloud.Route) bool {
		return !slices.ContainsFunc(there, func(o cloud.Route) bool { return o.Destination == r.Destination && o.NextHop == r.NextHop && !o.Ours })
	})
}

// An address pair whose route was never made and is not wanted any more goes, though no record
// tells of it.
func TestAddressPairGoesWhenItsRouteIsNeverMade(t *testing.T) {
	lab := newRouteLab(t, many+1)
	before := lab.state()
	stop := lab.sim.AddFault(ossim.Fault{Service: "network", Method: http.MethodPut, Path: "/routers/" + lab.routes.router + "/add_extraroutes", Status: 500})
	for n, err := range lab.apply(lab.someRoutes(0, many), nil) {
		if err == nil {
			t.Errorf("route %d: no error", n)
		}
	}
	if got := lab.state(); len(got.Pairs) != many || len(got.Tags) != 0 {
		t.Fatalf("there are %d ports with address pairs and %d records", len(got.Pairs), len(got.Tags))
	}
	stop()
	lab.mustApply(lab.someRoutes(many, many+1), nil)
	lab.mustApply(nil, lab.someRoutes(many, many+1))
	if diff := diffState(before, lab.state()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}
