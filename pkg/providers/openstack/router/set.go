package router

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// routerSet manages pod routes on several routers, as where each zone has one of its own: a
// route belongs on each router that has an interface on the subnet of its next hop.
type routerSet struct {
	c       *api.Client
	routers []*Routes

	mu    sync.Mutex
	reach map[string][]netip.Prefix // of the subnets of each router's interfaces
	read  time.Time
}

var _ cloud.Routes = (*routerSet)(nil)

func newRouterSet(c *api.Client, ids []string, x *neutron.Extensions) *routerSet {
	s := &routerSet{c: c}
	for _, id := range ids {
		s.routers = append(s.routers, newRouter(c, id, x))
	}
	return s
}

// List implements cloud.Routes with one request for all routers and, every reachTTL, two for
// what they reach. A route that lacks a record or is missing on one of its routers is Partial.
func (s *routerSet) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	tables, err := s.readTables(ctx)
	if err != nil {
		return nil, err
	}
	reach, err := s.reaches(ctx)
	if err != nil {
		return nil, err
	}
	type path struct {
		destination netip.Prefix
		nextHop     netip.Addr
	}
	var out []cloud.Route
	at := map[path]int{}
	on := map[path]map[string]bool{} // whether it is recorded, by the router that has it
	for k, t := range tables {
		for _, route := range t.list(cluster) {
			p := path{route.Destination, route.NextHop}
			if _, seen := at[p]; !seen {
				at[p], on[p] = len(out), map[string]bool{}
				out = append(out, route)
			}
			on[p][s.routers[k].router] = route.Ours
			out[at[p]].Ours = out[at[p]].Ours || route.Ours
		}
	}
	for p, n := range at {
		for _, r := range s.routers {
			recorded, there := on[p][r.router]
			if there && recorded != out[n].Ours || !there && reaches(reach[r.router], p.nextHop) {
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
	reach, err := s.reaches(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(out))
	}
	placed := make([]bool, len(add))
	for n, route := range add {
		placed[n] = slices.ContainsFunc(s.routers, func(r *Routes) bool { return reaches(reach[r.router], route.NextHop) })
		if !placed[n] {
			s.forget() // the interface may be new
			out[n] = cloud.Errorf(cloud.KindInvalid, "route to %s: no router of router-id has an interface on the subnet of its next hop %s", route.Destination, route.NextHop)
		}
	}
	var mu sync.Mutex
	var g errgroup.Group
	for _, r := range s.routers {
		var mine []cloud.Route
		var where []int
		for n, route := range add {
			if placed[n] && reaches(reach[r.router], route.NextHop) {
				mine, where = append(mine, route), append(where, n)
			}
		}
		for n := range remove {
			where = append(where, len(add)+n)
		}
		g.Go(func() error {
			errs := r.Apply(ctx, cluster, mine, remove)
			mu.Lock()
			defer mu.Unlock()
			for k, err := range errs {
				if out[where[k]] == nil {
					out[where[k]] = err
				}
			}
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return out
}

func reaches(subnets []netip.Prefix, hop netip.Addr) bool {
	return slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(hop) })
}

// readTables reads all routers, in their order.
func (s *routerSet) readTables(ctx context.Context) ([]*routeTable, error) {
	const op = "list routers"
	sc, err := s.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(s.routers))
	for k, r := range s.routers {
		ids[k] = r.router
	}
	list, err := api.ListIn[*routeTable](ctx, sc, "routers", "routers", "id", ids, url.Values{"fields": {"id", "routes", "tags", "revision_number"}})
	if err != nil {
		return nil, api.WrapError(op, err)
	}
	out := make([]*routeTable, len(ids))
	for k, id := range ids {
		n := slices.IndexFunc(list, func(t *routeTable) bool { return t != nil && t.ID == id })
		if n < 0 {
			return nil, cloud.Errorf(cloud.KindInvalid, "router-id names a router that does not exist: %s", id)
		}
		if out[k], err = (routerDoc{list[n]}).table(op); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reachTTL is how long the subnets of the routers' interfaces are remembered.
const reachTTL = 10 * time.Minute

func (s *routerSet) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = time.Time{}
}

// reaches returns the subnets that each router has an interface on.
func (s *routerSet) reaches(ctx context.Context) (map[string][]netip.Prefix, error) {
	s.mu.Lock()
	reach, fresh := s.reach, time.Since(s.read) < reachTTL
	s.mu.Unlock()
	if reach != nil && fresh {
		return reach, nil
	}
	reach, err := s.readReach(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reach, s.read = reach, time.Now()
	return reach, nil
}

func (s *routerSet) readReach(ctx context.Context) (map[string][]netip.Prefix, error) {
	sc, err := s.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range s.routers {
		ids = append(ids, r.router)
	}
	ports, err := api.ListIn[neutron.Port](ctx, sc, "ports", "ports", "device_id", ids, url.Values{"fields": {"id", "device_id", "fixed_ips"}})
	if err != nil {
		return nil, api.WrapError("list interfaces of routers", err)
	}
	on := map[string][]string{} // routers, by subnet
	var subnets []string
	for _, p := range ports {
		for _, f := range p.FixedIPs {
			if on[f.SubnetID] == nil {
				subnets = append(subnets, f.SubnetID)
			}
			on[f.SubnetID] = append(on[f.SubnetID], p.DeviceID)
		}
	}
	type subnet struct{ ID, CIDR string }
	list, err := api.ListIn[subnet](ctx, sc, "subnets", "subnets", "id", subnets, url.Values{"fields": {"id", "cidr"}})
	if err != nil {
		return nil, api.WrapError("list subnets of routers", err)
	}
	out := map[string][]netip.Prefix{}
	for _, x := range list {
		cidr, err := netip.ParsePrefix(x.CIDR)
		if err != nil {
			return nil, &cloud.Error{Op: "list subnets of routers", Err: fmt.Errorf("subnet %s: %w", x.ID, err)}
		}
		for _, router := range on[x.ID] {
			out[router] = append(out[router], cidr)
		}
	}
	return out, nil
}
