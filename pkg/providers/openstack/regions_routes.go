package openstack

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// regionalRoutes are the pod routes of several regions, each on routers of its own: a node's
// route is on its own region's. How pods reach those of other regions is the network's matter.
type regionalRoutes struct {
	primary string
	all     []*region // those with routers

	mu   sync.Mutex
	last map[*region]map[string][]cloud.Route // by cluster
}

var _ cloud.Routes = (*regionalRoutes)(nil)

func newRegionalRoutes(all []*region) *regionalRoutes {
	r := &regionalRoutes{primary: all[0].name, last: map[*region]map[string][]cloud.Route{}}
	for _, reg := range all {
		if reg.routes != nil {
			r.all = append(r.all, reg)
			r.last[reg] = map[string][]cloud.Route{}
		}
	}
	return r
}

// List implements cloud.Routes. The routes of a region that does not answer are those that it
// had last, so that the others' are looked after; it is an error when none answers.
func (r *regionalRoutes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	lists := make([]cloud.Result[[]cloud.Route], len(r.all))
	var g errgroup.Group
	for k, reg := range r.all {
		g.Go(func() error {
			lists[k] = askRegion(ctx, reg.gates.routes, 1, func(ctx context.Context) []cloud.Result[[]cloud.Route] {
				routes, err := reg.routes.List(ctx, cluster)
				return []cloud.Result[[]cloud.Route]{{Value: routes, Err: err}}
			})[0]
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	var out []cloud.Route
	var failed error
	answered := false
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, reg := range r.all {
		if err := lists[k].Err; err != nil {
			failed = err
			klog.FromContext(ctx).V(2).Info("The routes of a region cannot be read; those that it had last are assumed", "region", reg.name, "reason", err.Error())
		} else {
			answered = true
			r.last[reg][cluster.UID] = lists[k].Value
		}
		out = append(out, r.last[reg][cluster.UID]...)
	}
	if !answered {
		return nil, failed
	}
	return out, nil
}

// Apply implements cloud.Routes: one Apply in each region that is concerned. A route is
// removed where it was seen last, or everywhere when it was seen nowhere.
func (r *regionalRoutes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	out := make([]error, len(add)+len(remove))
	parts := make([]routePart, len(r.all))
	for n, route := range add {
		home := regionOf(route.Node.ProviderID, r.primary)
		k := slices.IndexFunc(r.all, func(reg *region) bool { return reg.name == home })
		if k < 0 {
			out[n] = cloud.Errorf(cloud.KindInvalid, "route to %s: its node is in region %s, for which cloud.conf names no router; set router-id in [Region %q]", route.Destination, home, home)
			continue
		}
		parts[k].add, parts[k].addAt = append(parts[k].add, route), append(parts[k].addAt, n)
	}
	for n, route := range remove {
		for _, k := range r.holders(cluster, route) {
			parts[k].remove, parts[k].removeAt = append(parts[k].remove, route), append(parts[k].removeAt, len(add)+n)
		}
	}
	results := make([][]cloud.Result[struct{}], len(r.all))
	var g errgroup.Group
	for k, p := range parts {
		if len(p.add)+len(p.remove) == 0 {
			continue
		}
		g.Go(func() error {
			results[k] = askRegion(ctx, r.all[k].gates.routes, len(p.add)+len(p.remove), func(ctx context.Context) []cloud.Result[struct{}] {
				return asResults(r.all[k].routes.Apply(ctx, cluster, p.add, p.remove))
			})
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	for k, p := range parts {
		for j, n := range slices.Concat(p.addAt, p.removeAt) {
			if out[n] == nil && results[k][j].Err != nil {
				out[n] = fmt.Errorf("route: %w", results[k][j].Err)
			}
		}
	}
	return out
}

// routePart is what one region has to do, and where the answers belong.
type routePart struct {
	add, remove     []cloud.Route
	addAt, removeAt []int
}

// holders are the regions to remove a route from.
func (r *regionalRoutes) holders(cluster cloud.Cluster, route cloud.Route) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen, all []int
	for k, reg := range r.all {
		all = append(all, k)
		if slices.ContainsFunc(r.last[reg][cluster.UID], func(o cloud.Route) bool {
			return o.Destination == route.Destination && o.NextHop == route.NextHop
		}) {
			seen = append(seen, k)
		}
	}
	if len(seen) == 0 {
		return all
	}
	return seen
}

func asResults(errs []error) []cloud.Result[struct{}] {
	out := make([]cloud.Result[struct{}], len(errs))
	for n, err := range errs {
		out[n].Err = err
	}
	return out
}
