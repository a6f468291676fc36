package router

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// routerSet manages pod routes on several routers, as where each zone has one of its own: a
// route belongs on each router that has an interface on the subnet of its next hop.
type routerSet struct {
	c       *api.Client
	ids     []string                                   // of the routers
	routers []*Routes                                  // in the order of their IDs
	reach   inventory.Value[map[string][]netip.Prefix] // of the subnets of each router's interfaces
}

// List implements cloud.Routes with one request for all routers and, every reachTTL, two for
// what they reach. A route that lacks a record or is missing on one of its routers is Partial.
func (s *routerSet) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	tables, err := s.readTables(ctx)
	if err != nil {
		return nil, err
	}
	reach, err := s.reach.Get(ctx, reachTTL, s.readReach)
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	at := map[cloud.Route]int{}             // by destination and next hop
	on := map[cloud.Route]map[string]bool{} // whether it is recorded, by the router that has it
	for k, t := range tables {
		for _, route := range t.list(cluster) {
			p := cloud.Route{Destination: route.Destination, NextHop: route.NextHop}
			if _, seen := at[p]; !seen {
				at[p], on[p] = len(out), map[string]bool{}
				out = append(out, route)
			}
			on[p][s.ids[k]] = route.Ours
			out[at[p]].Ours = out[at[p]].Ours || route.Ours
		}
	}
	for p, n := range at {
		for _, id := range s.ids {
			recorded, there := on[p][id]
			if there && recorded != out[n].Ours || !there && reaches(reach[id], p.NextHop) {
				out[n].Partial = true
			}
		}
	}
	return out, nil
}

// Apply implements cloud.Routes: one Apply of each router that is concerned.
func (s *routerSet) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	out := make([]error, len(add)+len(remove))
	if len(out) == 0 {
		return nil
	}
	reach, err := s.reach.Get(ctx, reachTTL, s.readReach)
	if err != nil {
		return slices.Repeat([]error{err}, len(out))
	}
	for n, route := range add {
		if !slices.ContainsFunc(s.ids, func(id string) bool { return reaches(reach[id], route.NextHop) }) {
			s.reach.Forget() // the interface may be new
			out[n] = cloud.Errorf(cloud.KindInvalid, "route to %s: no router of router-id has an interface on the subnet of its next hop %s", route.Destination, route.NextHop)
		}
	}
	var mu sync.Mutex
	inflight.Each(0, slices.All(s.routers), func(_ int, r *Routes) {
		var mine []cloud.Route
		var where []int
		for n, route := range add {
			if reaches(reach[r.router], route.NextHop) {
				mine, where = append(mine, route), append(where, n)
			}
		}
		for n := range remove {
			where = append(where, len(add)+n)
		}
		errs := r.Apply(ctx, cluster, mine, remove)
		mu.Lock()
		defer mu.Unlock()
		for k, err := range errs {
			out[where[k]] = cmp.Or(out[where[k]], err)
		}
	})
	return out
}

func reaches(subnets []netip.Prefix, hop netip.Addr) bool {
	return slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(hop) })
}

// readTables reads all routers, in their order.
func (s *routerSet) readTables(ctx context.Context) ([]*routeTable, error) {
	const op = "list routers"
	list, err := api.ListBy[*routeTable](ctx, s.c.On(ctx, api.Network, op), "routers", "id", url.Values{"id": s.ids, "fields": {"id", "routes", "tags", "revision_number"}})
	if err != nil {
		return nil, err
	}
	out := make([]*routeTable, len(s.ids))
	for k, id := range s.ids {
		n := slices.IndexFunc(list, func(t *routeTable) bool { return t.ID == id })
		if n < 0 {
			return nil, cloud.Errorf(cloud.KindInvalid, "router-id names a router that does not exist: %s", id)
		}
		if out[k], err = list[n].checked(op); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reachTTL is how long the subnets of the routers' interfaces are remembered.
const reachTTL = 10 * time.Minute

// readReach returns the subnets that each router has an interface on.
func (s *routerSet) readReach(ctx context.Context) (map[string][]netip.Prefix, error) {
	on, err := interfaces(ctx, s.c, s.ids...)
	if err != nil {
		return nil, err
	}
	type subnet struct{ ID, CIDR string }
	const op = "list subnets of routers"
	list, err := api.ListBy[subnet](ctx, s.c.On(ctx, api.Network, op), "subnets", "id", url.Values{"id": slices.Sorted(maps.Keys(on)), "fields": {"id", "cidr"}})
	if err != nil {
		return nil, err
	}
	out := map[string][]netip.Prefix{}
	for _, x := range list {
		cidr, err := netip.ParsePrefix(x.CIDR)
		if err != nil {
			return nil, &cloud.Error{Op: op, Err: fmt.Errorf("subnet %s: %w", x.ID, err)}
		}
		for _, router := range on[x.ID] {
			out[router] = append(out[router], cidr)
		}
	}
	return out, nil
}
