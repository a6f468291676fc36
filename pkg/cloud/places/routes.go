package places

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// routes are the pod routes of all places that have some.
type routes struct {
	*joined
	places []*member[cloud.Routes]

	mu   sync.Mutex
	last []map[string][]cloud.Route // what each place had, by cluster
}

var _ cloud.Routes = (*routes)(nil)

func newRoutes(j *joined) *routes {
	r := &routes{joined: j, places: membersOf(j, func(p Place) (cloud.Routes, bool) { return p.Routes, p.Routes != nil })}
	for range r.places {
		r.last = append(r.last, map[string][]cloud.Route{})
	}
	return r
}

// List implements cloud.Routes. The routes of a place that does not answer are those that it had
// last, so that the others' are looked after; it is an error when none answers.
func (r *routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	lists := each(ctx, r.places, 1, func(ctx context.Context, p cloud.Routes) []cloud.Result[[]cloud.Route] {
		return one(p.List(ctx, cluster))
	})
	var out []cloud.Route
	var failed error
	answered := false
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, p := range r.places {
		if err := lists[k][0].Err; err != nil {
			failed = err
			klog.FromContext(ctx).V(2).Info("The routes of a place cannot be read; those that it had last are assumed", "place", p.name, "reason", err.Error())
		} else {
			answered = true
			r.last[k][cluster.UID] = lists[k][0].Value
		}
		out = append(out, r.last[k][cluster.UID]...)
	}
	if !answered {
		return nil, failed
	}
	return out, nil
}

// part is what one place has to do, and where the answers belong.
type part struct {
	add, remove     []cloud.Route
	addAt, removeAt []int
}

// Apply implements cloud.Routes: one Apply in each place that is concerned. A route is removed
// where it was seen last, or everywhere when it was seen nowhere.
func (r *routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	out := make([]error, len(add)+len(remove))
	parts := make([]part, len(r.places))
	for n, route := range add {
		home := r.home(route.Node)
		k := slices.IndexFunc(r.places, func(p *member[cloud.Routes]) bool { return p.name == home })
		if k < 0 {
			out[n] = cloud.Errorf(cloud.KindInvalid, "route to %s: its node is in %s %s, which has no routes; %s", route.Destination, r.words.Place, home, r.words.AddRoutes(home))
			continue
		}
		parts[k].add, parts[k].addAt = append(parts[k].add, route), append(parts[k].addAt, n)
	}
	for n, route := range remove {
		for _, k := range r.holders(cluster, route) {
			parts[k].remove, parts[k].removeAt = append(parts[k].remove, route), append(parts[k].removeAt, len(add)+n)
		}
	}
	results := make([][]cloud.Result[struct{}], len(r.places))
	var g errgroup.Group
	for k, p := range parts {
		n := len(p.add) + len(p.remove)
		if n == 0 {
			continue
		}
		g.Go(func() error {
			results[k] = ask(ctx, r.places[k].gate, n, func(ctx context.Context) []cloud.Result[struct{}] {
				return asResults(r.places[k].next.Apply(ctx, cluster, p.add, p.remove))
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

// holders are the places to remove a route from.
func (r *routes) holders(cluster cloud.Cluster, route cloud.Route) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen, all []int
	for k := range r.places {
		all = append(all, k)
		if slices.ContainsFunc(r.last[k][cluster.UID], func(o cloud.Route) bool {
			return o.Destination == route.Destination && o.Hop() == route.Hop()
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
