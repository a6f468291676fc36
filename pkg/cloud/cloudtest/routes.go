package cloudtest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func routeFeatures() []feature {
	return []feature{
		{name: RoutesChange, what: "Routes to pod CIDRs are added and removed as a set", alone: true, silent: true, check: func(t *T, x *suite) { checkRoutes(t, x, false) }},
		{name: RoutesSame, what: "Routes that are there already cost no changing call", alone: true, silent: true, check: checkSameRoutes},
		{name: RoutesForeign, what: "Routes of operators stay", alone: true, silent: true, check: checkForeignRoutes},
		{name: RoutesIPv6, what: "IPv6 routes", alone: true, silent: true, check: func(t *T, x *suite) { checkRoutes(t, x, true) }},
		{name: RoutesBlackhole, what: "A route to an instance that is gone is a blackhole, which is replaced or removed", alone: true, silent: true, check: checkBlackhole},
	}
}

// routeTest is a provider with routes to the nodes.
type routeTest struct {
	t       *T
	x       *suite
	p       *process
	cluster cloud.Cluster
	ours    []cloud.Route // to each node
	moved   cloud.Route   // the first of them, but to the second node
}

func (x *suite) routes(t *T, v6 bool) *routeTest {
	r := &routeTest{t: t, x: x, p: x.start(t), cluster: x.cluster}
	if r.p.Routes == nil {
		t.Fatalf("the provider has no routes")
	}
	base := "10.244.%d.0/24"
	r.cluster.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	if v6 {
		base = "fd00:10:244:%d::/64"
		r.cluster.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("fd00:10:244::/48")}
	}
	for i, n := range x.nodes {
		r.ours = append(r.ours, r.to(fmt.Sprintf(base, i+1), n, v6))
	}
	r.moved = r.to(r.ours[0].Destination.String(), x.nodes[1], v6)
	t.Cleanup(func() {
		if err := errors.Join(r.p.Routes.Apply(t.Ctx, r.cluster, nil, append(r.ours, r.moved))...); err != nil {
			t.spoil("remove the routes: %v", err)
		}
	})
	return r
}

// to is a route to a node.
func (r *routeTest) to(destination string, n Instance, v6 bool) cloud.Route {
	out := cloud.Route{Destination: netip.MustParsePrefix(destination), Node: n.Ref}
	if r.p.Routing.ToInstance {
		out.Target = n.Ref.ProviderID
		return out
	}
	at := slices.IndexFunc(n.Addresses, func(a netip.Addr) bool { return a.Is6() == v6 })
	if at < 0 {
		r.t.Fatalf("instance %s has no address of the family", n.Ref.NodeName)
	}
	out.NextHop = n.Addresses[at]
	return out
}

func (r *routeTest) apply(add, remove []cloud.Route) {
	if err := errors.Join(r.p.Routes.Apply(r.t.Ctx, r.cluster, add, remove)...); err != nil {
		r.t.Fatalf("Apply: %v", err)
	}
}

func key(r cloud.Route) string { return r.Destination.String() + " via " + r.Hop().String() }

// check compares the routes in the cluster's CIDRs with those wanted, as the provider and as
// the cloud has them. Those of foreign are not ours.
func (r *routeTest) check(ours, foreign []cloud.Route) {
	listed, err := r.p.Routes.List(r.t.Ctx, r.cluster)
	if err != nil {
		r.t.Fatalf("List: %v", err)
	}
	var want, got, there []string
	for _, route := range ours {
		want = append(want, key(route)+" (ours)")
	}
	for _, route := range foreign {
		want = append(want, key(route))
	}
	for _, route := range listed {
		k := key(route)
		if route.Ours {
			k += " (ours)"
		}
		got = append(got, k)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		r.t.Errorf("List says %q, want %q", got, want)
	}
	for _, route := range must[[]cloud.Route](r.t)(r.x.World.Routes(r.t.Ctx)) {
		there = append(there, key(route))
	}
	for _, route := range slices.Concat(ours, foreign) {
		if !slices.Contains(there, key(route)) {
			r.t.Errorf("the cloud has the routes %q; %s is missing", there, key(route))
		}
	}
}

func checkRoutes(t *T, x *suite, v6 bool) {
	r := x.routes(t, v6)
	r.apply(r.ours[:2], nil)
	r.check(r.ours[:2], nil)
	r.apply(r.ours[2:], r.ours[:1])
	r.check(r.ours[1:], nil)
	r.apply(r.ours[:1], nil)
	moved := append([]cloud.Route{r.moved}, r.ours[1:]...)
	r.apply(moved[:1], nil) // where a destination has one hop, it is replaced
	if !r.p.Routing.OneHop {
		r.check(append(moved, r.ours[0]), nil)
		r.apply(nil, r.ours[:1])
	}
	r.check(moved, nil)
	r.apply(nil, moved)
	r.check(nil, nil)
}

func checkSameRoutes(t *T, x *suite) {
	r := x.routes(t, false)
	r.apply(r.ours, nil)
	for _, p := range []*process{r.p, x.start(t)} {
		before := p.mutations.Load()
		if err := errors.Join(p.Routes.Apply(t.Ctx, r.cluster, r.ours, nil)...); err != nil {
			t.Errorf("Apply of what is there: %v", err)
		}
		if n := p.mutations.Load() - before; n > 0 {
			t.Errorf("nothing has changed, but there were %d changing calls", n)
		}
	}
	r.check(r.ours, nil)
}

func checkForeignRoutes(t *T, x *suite) {
	r := x.routes(t, false)
	inside := cloud.Route{Destination: netip.MustParsePrefix("10.244.99.0/24"), NextHop: r.ours[0].NextHop, Target: r.ours[0].Target}
	outside := cloud.Route{Destination: netip.MustParsePrefix("192.0.2.0/24"), NextHop: r.ours[0].NextHop, Target: r.ours[0].Target}
	for _, route := range []cloud.Route{inside, outside} {
		t.Must(x.World.AddRoute(t.Ctx, route))
		t.Cleanup(func() { t.Must(x.World.RemoveRoute(t.Ctx, route)) })
	}
	for _, step := range []struct{ add, remove []cloud.Route }{{add: r.ours}, {remove: r.ours}} {
		r.apply(step.add, step.remove)
		r.check(step.add, []cloud.Route{inside})
		if all := must[[]cloud.Route](t)(x.World.Routes(t.Ctx)); !slices.ContainsFunc(all, func(o cloud.Route) bool { return key(o) == key(outside) }) {
			t.Errorf("the operator's route %s is gone", key(outside))
		}
	}
}

func checkBlackhole(t *T, x *suite) {
	r, n := x.routes(t, false), x.spare(t, "routed")
	gone := []cloud.Route{r.to(r.ours[0].Destination.String(), n, false), r.to(r.ours[1].Destination.String(), n, false)}
	var holes []cloud.Route
	for _, g := range gone {
		holes = append(holes, cloud.Route{Destination: g.Destination, Blackhole: true})
	}
	t.Cleanup(func() {
		left, err := r.p.Routes.List(t.Ctx, r.cluster)
		if err := errors.Join(append(r.p.Routes.Apply(t.Ctx, r.cluster, nil, left), err)...); err != nil {
			t.spoil("remove the routes to an instance that is gone: %v", err)
		}
	})
	r.apply(gone, nil)
	r.check(gone, nil)
	t.Must(x.World.DeleteInstance(t.Ctx, n))
	if r.check(holes, nil); len(t.failures) > 0 {
		return
	}
	if !r.p.Routing.OneHop {
		r.apply(nil, holes[:1])
	}
	r.apply(r.ours[:1], holes[1:])
	r.check(r.ours[:1], nil)
}
