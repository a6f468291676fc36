package routes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

// writesAtOnce is how many changes are under way at the same time.
const writesAtOnce = 8

// Traits are those of the routes. A table has at most 1,000 routes, and its quota is mostly less.
func Traits() cloud.RouteTraits { return cloud.RouteTraits{ToInstance: true, OneHop: true, Max: 1000} }

// Routes manages pod routes in one route table.
//
// List reads the table with one call, and instances that routes lead to for the first time, or nowhere, many at once. Apply reads the table and
// the instances that it is asked about, and then makes one call for each route: EC2 changes routes one by one. A route takes
// the place of another one by two calls, as EC2's call for that needs a permission that policies of the existing manager's users
// lack. Before a route leads to an instance, its interface is told to forward, if it does not.
//
// What crashes in between leaves no route, or an instance that forwards, which the next pass goes on with.
type Routes struct {
	c       *api.Client
	tableID string
	cluster func() string
	memory  inventory.Memory[string, *machine]
	now     func() time.Time
}

var _ cloud.Routes = (*Routes)(nil)

// New makes the routes of the table that cfg names, or that has the cluster's tag. cluster is the ID in that, "" while it is not
// known.
func New(c *api.Client, cfg *config.Global, cluster func() string) *Routes {
	return &Routes{c: c, tableID: cfg.RouteTableID, cluster: cluster, now: time.Now}
}

// List implements cloud.Routes.
func (r *Routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	t, err := r.table(ctx)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, e := range t.routes {
		if cluster.HasPods(e.destination) {
			entries = append(entries, e)
		}
	}
	machines, err := r.known(ctx, entries)
	if err != nil {
		return nil, err
	}
	out := make([]cloud.Route, len(entries))
	for n, e := range entries {
		out[n] = e.route(machines[e.instance])
	}
	slices.SortFunc(out, func(a, b cloud.Route) int { return a.Destination.Compare(b.Destination) })
	return out, nil
}

// Apply implements cloud.Routes.
func (r *Routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	if len(add)+len(remove) == 0 {
		return nil
	}
	t, machines, err := r.observe(ctx, add, remove)
	if err != nil {
		return slices.Repeat([]error{err}, len(add)+len(remove))
	}
	changes, errs := plan(observed{t, machines}, cluster, add, remove)
	removals, rest := split(changes)
	inflight.Each(writesAtOnce, slices.All(removals), func(_ int, c *change) { r.do(ctx, t, c, errs) }) // first, so that a full table has room
	unready := r.forward(ctx, rest)
	inflight.Each(writesAtOnce, slices.All(rest), func(_ int, c *change) {
		if err := unready[c.to.id]; err != nil {
			errs[c.added] = err
			if c.removed >= 0 {
				errs[c.removed] = err
			}
			return
		}
		r.do(ctx, t, c, errs)
	})
	for k, route := range add {
		if id, err := instanceOf(route); err == nil && errs[k] == nil {
			r.spell(machines[id], route.Target)
		}
	}
	return errs
}

// observe reads the table, and the instances that routes lead to which are asked about.
func (r *Routes) observe(ctx context.Context, add, remove []cloud.Route) (*table, map[string]*machine, error) {
	t, err := r.table(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids := map[string]bool{}
	for _, route := range slices.Concat(add, remove) {
		if id, err := instanceOf(route); err == nil {
			ids[id] = true
		}
		if e := t.routes[route.Destination.Masked()]; e.instance != "" {
			ids[e.instance] = true
		}
	}
	machines, err := r.read(ctx, ids)
	return t, machines, err
}

// split tells the changes after which there is no route from those after which there is one.
func split(changes []*change) (removals, rest []*change) {
	for _, c := range changes {
		if c.to == nil {
			removals = append(removals, c)
		} else {
			rest = append(rest, c)
		}
	}
	return removals, rest
}

// do makes a change, and notes what came of it.
func (r *Routes) do(ctx context.Context, t *table, c *change, errs []error) {
	var err error
	if c.drop {
		err = r.c.DeleteRoute(ctx, t.id, c.destination)
		if c.removed >= 0 {
			errs[c.removed] = err
		}
	}
	if c.to == nil {
		return
	}
	if err == nil {
		err = aside(r.c.CreateRoute(ctx, t.id, c.destination, c.to.hop()))
	}
	errs[c.added] = err
}

// forward has each instance forward that routes are to lead to, unless it does already. It returns why some do not.
func (r *Routes) forward(ctx context.Context, changes []*change) map[string]error {
	todo := map[string]*machine{}
	for _, c := range changes {
		if c.to.checked {
			todo[c.to.id] = c.to
		}
	}
	var mu sync.Mutex
	failed := map[string]error{}
	inflight.Each(writesAtOnce, maps.All(todo), func(id string, m *machine) {
		var err error
		if len(m.interfaces) > 1 {
			err = r.c.ForwardBy(ctx, m.primary)
		} else {
			err = r.c.Forward(ctx, id)
		}
		mu.Lock()
		defer mu.Unlock()
		failed[id] = aside(err)
	})
	return failed
}

// aside is an error of what a route needs. That it is not found does not say so of the route.
func aside(err error) error {
	if cloud.IsNotFound(err) {
		return &cloud.Error{Kind: cloud.KindUnknown, Op: "make a route", Err: err}
	}
	return err
}
