package router

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// routerSetLab has three routers: the simulator's own and one more on the servers' subnet,
// and one on a subnet of another zone.
type routerSetLab struct {
	*routeLab
	set                *routerSet
	first, twin, other *routeLab // look at one router each
	hop                netip.Addr
}

func newRouterSetLab(t *testing.T) *routerSetLab {
	t.Helper()
	lab := newRouteLab(t, 2)
	ctx, c := apitest.Context(t), lab.routes.c
	sc, err := c.Service(ctx, api.Network)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d := lab.sim.Defaults()
	twin, err := routers.Create(ctx, sc, routers.CreateOpts{Name: "twin"}).Extract()
	must(err)
	port, err := ports.Create(ctx, sc, ports.CreateOpts{NetworkID: d.NetworkID}).Extract()
	must(err)
	_, err = routers.AddInterface(ctx, sc, twin.ID, routers.AddInterfaceOpts{PortID: port.ID}).Extract()
	must(err)
	zone, err := networks.Create(ctx, sc, networks.CreateOpts{Name: "zone-b"}).Extract()
	must(err)
	subnet, err := subnets.Create(ctx, sc, subnets.CreateOpts{NetworkID: zone.ID, CIDR: "198.51.100.0/24", IPVersion: 4}).Extract()
	must(err)
	other, err := routers.Create(ctx, sc, routers.CreateOpts{Name: "other"}).Extract()
	must(err)
	_, err = routers.AddInterface(ctx, sc, other.ID, routers.AddInterfaceOpts{SubnetID: subnet.ID}).Extract()
	must(err)
	_, err = ports.Create(ctx, sc, ports.CreateOpts{NetworkID: zone.ID, FixedIPs: []ports.IP{{IPAddress: "198.51.100.7"}}}).Extract()
	must(err)
	conf := strings.Replace(lab.sim.CloudConf(), "router-id = "+d.RouterID, fmt.Sprintf("router-id = %s\nrouter-id = %s\nrouter-id = %s", d.RouterID, twin.ID, other.ID), 1)
	set := newProviderOf(t, lab.sim, conf).Routes.(*routerSet)
	view := func(n int) *routeLab {
		v := *lab
		v.routes = set.routers[n]
		return &v
	}
	return &routerSetLab{routeLab: lab, set: set, first: view(0), twin: view(1), other: view(2), hop: netip.MustParseAddr("198.51.100.7")}
}

func (l *routerSetLab) apply(add, remove []cloud.Route) {
	l.t.Helper()
	for n, err := range l.set.Apply(apitest.Context(l.t), l.cluster, add, remove) {
		if err != nil {
			l.t.Fatalf("route %d: %v", n, err)
		}
	}
}

func (l *routerSetLab) list() map[string]string {
	l.t.Helper()
	routes, err := l.set.List(apitest.Context(l.t), l.cluster)
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range routes {
		out[r.Destination.String()] = fmt.Sprintf("ours %t, partial %t", r.Ours, r.Partial)
	}
	return out
}

// Each route is on every router that reaches its next hop and on no other, also when one of
// them has lost it or never heard of it; idle passes cost one call for all routers.
func TestSeveralRouters(t *testing.T) {
	lab := newRouterSetLab(t)
	far := cloud.Route{Destination: netip.MustParsePrefix("10.244.99.0/24"), NextHop: lab.hop}
	all := append(lab.someRoutes(0, 2), far)
	empty := []routeState{lab.first.state(), lab.twin.state(), lab.other.state()}
	lab.apply(all, nil)
	near := []string{"10.244.0.0/32", "10.244.0.1/32"}
	for name, want := range map[*routeLab][]string{lab.first: near, lab.twin: near, lab.other: {"10.244.99.0/24"}} {
		var got []string
		for _, r := range name.list() {
			got = append(got, r.Destination.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes of router %s (-want +got):\n%s", name.routes.router, diff)
		}
	}
	complete := map[string]string{"10.244.0.0/32": "ours true, partial false", "10.244.0.1/32": "ours true, partial false", "10.244.99.0/24": "ours true, partial false"}
	lab.sim.ResetRequests()
	if diff := cmp.Diff(complete, lab.list()); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if n := apitest.Calls(lab.sim); n != 1 {
		t.Errorf("%d calls to list three routers, want 1", n)
	}

	t.Run("lost on one router", func(t *testing.T) {
		lab.put("routers/"+lab.twin.routes.router+"/remove_extraroutes", map[string]any{"router": map[string]any{"routes": []routeEntry{entryOf(lab.route(0))}}})
		if got := lab.list()["10.244.0.0/32"]; got != "ours true, partial true" {
			t.Errorf("got %s", got)
		}
		lab.apply(lab.someRoutes(0, 1), nil)
		if diff := cmp.Diff(complete, lab.list()); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	})
	t.Run("not recorded on one router", func(t *testing.T) {
		sc, err := lab.routes.c.Service(apitest.Context(t), api.Network)
		if err != nil {
			t.Fatal(err)
		}
		// The routers are changed at the same time, and which of them finds the address pair
		// missing records that it is ours: without that record the pair would stay, so the
		// record of the other one is taken.
		victim, record := lab.first, recordTag(lab.cluster, lab.route(0))
		if slices.Contains(lab.first.state().Tags, record+marks.Beside) {
			victim = lab.twin
		}
		for _, tag := range []string{record, record + marks.Beside} {
			if err := api.With(sc, "remove record").Delete(apitest.Context(t), "routers", victim.routes.router, "tags", tag); err != nil {
				t.Fatal(err)
			}
		}
		if got := lab.list()["10.244.0.0/32"]; got != "ours true, partial true" {
			t.Errorf("got %s", got)
		}
		lab.apply(lab.someRoutes(0, 2), nil)
		if diff := cmp.Diff(complete, lab.list()); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	})
	t.Run("no router reaches it", func(t *testing.T) {
		nowhere := cloud.Route{Destination: netip.MustParsePrefix("10.244.98.0/24"), NextHop: netip.MustParseAddr("203.0.113.9")}
		errs := lab.set.Apply(apitest.Context(t), lab.cluster, []cloud.Route{nowhere, lab.route(0)}, nil)
		if len(errs) != 2 || errs[1] != nil || cloud.KindOf(errs[0]) != cloud.KindInvalid || !strings.Contains(errs[0].Error(), "no router of router-id has an interface") {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("a router is gone", func(t *testing.T) {
		body := fmt.Sprintf(`{"routers": [{"id": %q, "routes": [], "tags": []}]}`, lab.first.routes.router)
		defer lab.sim.AddFault(ossim.Fault{Service: "network", Method: "GET", Path: "/routers", Body: body})()
		if _, err := lab.set.List(apitest.Context(t), lab.cluster); err == nil || cloud.IsNotFound(err) || !strings.Contains(err.Error(), "names a router that does not exist") {
			t.Errorf("got %v", err)
		}
	})
	lab.apply(nil, all)
	for n, view := range []*routeLab{lab.first, lab.twin, lab.other} {
		if diff := diffState(empty[n], view.state()); diff != "" {
			t.Errorf("left on router %s (-want +got):\n%s", view.routes.router, diff)
		}
	}
}
