package router

import (
	"context"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// Routes manages pod routes as extra routes of a Neutron router, and lets each node's port
// send from its pod CIDR (allowed address pairs).
//
// What Isthmus made is recorded as tags on the router, one a route and each a request of its
// own, see record.go. A route never waits for many of them, and fails for none:
//
//	add, up to recordsAhead: record → allowed address pair → route
//	add, more:               allowed address pair → route; recorded when asked for again
//	remove:                  allowed address pair → route → record
//
// A crash between two calls leaves, of few, what the next caller asks for or the next change
// cleans up by its record. Of many it leaves routes without a record. Those are somebody
// else's until their caller, who sees that they lead to their Node, asks for them again: then
// they are recorded. One whose Node goes before that stays, as does an address pair without a
// record: nothing is removed that may be an operator's. While the process lives it remembers
// the pairs that it made.
//
// A route that is asked for and there already, made by somebody else, is recorded as ours
// and not changed otherwise: the caller says that it is the cluster's, and it shall go with
// its Node. Other routes that others made stay unless the caller asks for the removal of
// exactly them; address pairs that others made always stay.
type Routes struct {
	c      *api.Client
	router string // its ID
	// turn holds one token: changes of the table and its records must not interleave.
	turn       chan struct{}
	extensions *neutron.Extensions
	// pairs are the routes whose address pairs this process made, as far as no record says so:
	// until they are recorded or gone. Whoever has the turn may use it.
	pairs map[routeEntry]bool
}

// recordsAhead is of how many new routes the records are written before the routes are made:
// a second's work.
const recordsAhead = 10

func newRouter(c *api.Client, id string, x *neutron.Extensions) *Routes {
	return &Routes{c: c, router: id, turn: make(chan struct{}, 1), extensions: x, pairs: map[routeEntry]bool{}}
}

// New manages the routes of the configured routers, of which there is at least one.
func New(c *api.Client, ids []string) cloud.Routes {
	s, x := &routerSet{c: c, ids: ids}, neutron.NewExtensions(c)
	for _, id := range ids {
		s.routers = append(s.routers, newRouter(c, id, x))
	}
	if len(ids) == 1 {
		return s.routers[0]
	}
	s.reach.Read = c.Keep("router_subnets")
	return s
}

// List implements cloud.Routes with one request.
func (r *Routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	t, err := r.readTable(ctx)
	if err != nil {
		return nil, err
	}
	return t.list(cluster), nil
}

// list is the table's part that concerns the cluster.
func (t *routeTable) list(cluster cloud.Cluster) []cloud.Route {
	var out []cloud.Route
	for _, e := range t.Routes {
		route, ok := e.parse()
		if !ok {
			continue
		}
		route.Ours = t.record(cluster, route) != recordNone
		if route.Ours || cluster.HasPods(route.Destination) {
			out = append(out, route)
		}
	}
	return out
}

// Apply implements cloud.Routes. Removals come first, so that a table at its quota can be
// turned over.
func (r *Routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	if len(add)+len(remove) == 0 {
		return nil
	}
	fail := func(err error) []error { return slices.Repeat([]error{err}, len(add)+len(remove)) }
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fail(&cloud.Error{Op: "change routes", Err: ctx.Err()})
	}
	b := &routeBatch{r: r, cluster: cluster}
	for _, route := range add {
		b.items = append(b.items, &routeItem{route: route, add: true})
	}
	for _, route := range remove {
		b.items = append(b.items, &routeItem{route: route})
	}
	if err := b.apply(ctx); err != nil {
		return fail(err)
	}
	out := make([]error, len(add)+len(remove))
	for n := range out {
		out[n] = b.items[n].err
	}
	return out
}

// routeBatch is one Apply on its way.
type routeBatch struct {
	r       *Routes
	cluster cloud.Cluster
	items   []*routeItem // what was asked for, in its order, then abandoned ones
	table   *routeTable
	can     map[string]bool // extensions of Neutron
}

// routeItem is one wanted change. Once err is set nothing more is done for it.
type routeItem struct {
	route cloud.Route
	add   bool
	adopt bool          // to be added, but there already and not recorded
	port  *neutron.Port // the port that has the next hop; nil when there is none
	err   error
}

// open lists the items of one direction that have not failed.
func (b *routeBatch) open(add bool) []*routeItem {
	var out []*routeItem
	for _, item := range b.items {
		if item.add == add && item.err == nil {
			out = append(out, item)
		}
	}
	return out
}

// apply does everything; its error is one that stopped it before anything was changed.
func (b *routeBatch) apply(ctx context.Context) error {
	for _, item := range b.items {
		item.err = item.route.CheckHop()
	}
	var err error
	if b.table, err = b.r.readTable(ctx); err != nil {
		return err
	}
	if b.can, err = b.r.extensions.Get(ctx, b.r.c); err != nil {
		return err
	}
	for _, item := range b.items {
		item.adopt = item.add && b.table.has(item.route) && b.table.record(b.cluster, item.route) == recordNone
	}
	b.addAbandoned()
	if err := b.findPorts(ctx); err != nil {
		return err
	}
	b.removePairs(ctx)
	b.changeTable(ctx, false)
	b.rememberPairs()
	b.recordAhead(ctx)
	b.addPairs(ctx)
	b.changeTable(ctx, true)
	b.recordBehind(ctx)
	return nil
}

// changeTable adds or removes the open items' routes as one set. Neutron refuses a set as a
// whole for one bad route, so a refused set is halved until the bad ones are alone.
func (b *routeBatch) changeTable(ctx context.Context, add bool) {
	var pending []*routeItem
	for _, item := range b.open(add) {
		if b.table.has(item.route) != add {
			pending = append(pending, item)
		}
	}
	b.changeSet(ctx, pending, add)
}

func (b *routeBatch) changeSet(ctx context.Context, items []*routeItem, add bool) {
	if len(items) == 0 {
		return
	}
	entries := make([]routeEntry, len(items))
	for n, item := range items {
		entries[n] = entryOf(item.route)
	}
	table, err := b.r.change(ctx, b.can, entries, add)
	switch {
	case err == nil:
		b.table.Routes = table
		b.table.index()
	case len(items) > 1 && cloud.KindOf(err) == cloud.KindInvalid:
		b.changeSet(ctx, items[:len(items)/2], add)
		b.changeSet(ctx, items[len(items)/2:], add)
	default:
		for _, item := range items {
			item.err = err
		}
	}
}
