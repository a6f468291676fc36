package decorate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// routesWindow is how long a change of routes waits for company.
const routesWindow = 20 * time.Millisecond

// routes decorates cloud.Routes. Changes that arrive within routesWindow, or while another
// set is being applied, become one set; sets follow each other. Concurrent lists of one
// cluster share one read, unless routes were changed since it began.
type routes struct {
	next cloud.Routes
	call *caller
	work *work

	mu       sync.Mutex
	queue    []*routeSet // the last one is open to further changes
	draining bool
	listings map[string]*listing
}

// listing is a read shared by all who ask while it runs.
type listing struct {
	done   chan struct{} // closed when the others can be read
	routes []cloud.Route
	err    error
}

var _ cloud.Routes = (*routes)(nil)

func newRoutes(next cloud.Routes, c *caller, w *work) *routes {
	return &routes{next: next, call: c, work: w, listings: map[string]*listing{}}
}

// List implements cloud.Routes.
func (r *routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	key := clusterKey(cluster)
	r.mu.Lock()
	l := r.listings[key]
	if l == nil {
		l = &listing{done: make(chan struct{})}
		if !r.work.start(ctx, func(ctx context.Context) { r.list(ctx, cluster, key, l) }) {
			r.mu.Unlock()
			return nil, fmt.Errorf("list routes: %w", errClosed)
		}
		r.listings[key] = l
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return slices.Clone(l.routes), l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("list routes: %w", context.Cause(ctx))
	}
}

func (r *routes) list(ctx context.Context, cluster cloud.Cluster, key string, l *listing) {
	l.err = r.call.do(ctx, operation{ability: "routes", name: "list"}, func(ctx context.Context) (err error) {
		l.routes, err = r.next.List(ctx, cluster)
		return err
	})
	if l.err != nil {
		l.routes = nil
	}
	r.mu.Lock()
	if r.listings[key] == l {
		delete(r.listings, key)
	}
	r.mu.Unlock()
	close(l.done)
}

// Apply implements cloud.Routes.
func (r *routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	changes := make([]routeChange, 0, len(add)+len(remove))
	for _, route := range add {
		changes = append(changes, routeChange{route: route})
	}
	for _, route := range remove {
		changes = append(changes, routeChange{route: route, remove: true})
	}
	if len(changes) == 0 {
		return nil
	}
	errs := make([]error, len(changes))
	sets, err := r.enqueue(ctx, cluster, changes)
	for k, change := range changes {
		if err == nil {
			select {
			case <-sets[k].done:
				errs[k] = sets[k].errs[sets[k].at[change]]
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		errs[k] = fmt.Errorf("change route %s via %s: %w", change.route.Destination, change.route.Hop(), err)
	}
	return errs
}

// enqueue finds each change a set, in order.
func (r *routes) enqueue(ctx context.Context, cluster cloud.Cluster, changes []routeChange) ([]*routeSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		if !r.work.start(ctx, r.drain) {
			return nil, errClosed
		}
		r.draining = true
	}
	key := clusterKey(cluster)
	sets := make([]*routeSet, len(changes))
	for k, change := range changes {
		var last *routeSet
		if n := len(r.queue); n > 0 {
			last = r.queue[n-1]
		}
		if last == nil || last.key != key || !last.add(change) {
			last = newRouteSet(cluster, key)
			last.add(change)
			r.queue = append(r.queue, last)
		}
		sets[k] = last
	}
	return sets, nil
}

// drain applies sets until there are none.
func (r *routes) drain(ctx context.Context) {
	for {
		_ = sleep(ctx, r.call.clock, routesWindow) // closed: what follows fails for that
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.draining = false
			r.mu.Unlock()
			return
		}
		set := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.apply(ctx, set)
	}
}

// apply makes the changes of one set.
func (r *routes) apply(ctx context.Context, set *routeSet) {
	results := batch(ctx, r.call, operation{ability: "routes", name: "apply", mutation: true}, set.changes,
		func(ctx context.Context, changes []routeChange) []cloud.Result[struct{}] {
			return applied(changes, func(add, remove []cloud.Route) []error {
				return r.next.Apply(ctx, set.cluster, add, remove)
			})
		})
	set.errs = make([]error, len(results))
	for k := range results {
		set.errs[k] = results[k].Err
	}
	r.mu.Lock()
	clear(r.listings) // those who list from now on shall see what was done
	r.mu.Unlock()
	close(set.done)
}

// applied gives apply the changes sorted into two lists and brings its answers back into
// the order of changes.
func applied(changes []routeChange, apply func(add, remove []cloud.Route) []error) []cloud.Result[struct{}] {
	var lists [2][]cloud.Route
	for _, c := range changes {
		lists[c.list()] = append(lists[c.list()], c.route)
	}
	errs := apply(lists[0], lists[1])
	results := make([]cloud.Result[struct{}], len(changes))
	next := [2]int{0, len(lists[0])}
	for k, c := range changes {
		if len(errs) != len(changes) {
			results[k].Err = errors.New("the provider's answers do not match the changes asked for, which is a bug in it")
			continue
		}
		results[k].Err = errs[next[c.list()]]
		next[c.list()]++
	}
	return results
}

// clusterKey tells clusters apart, which are not comparable.
func clusterKey(c cloud.Cluster) string {
	return fmt.Sprintf("%s\x00%s\x00%v", c.UID, c.Name, c.PodCIDRs)
}
