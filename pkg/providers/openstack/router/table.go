package router

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// routeTable is what is read of the router.
type routeTable struct {
	ID       string       `json:"id"`
	Routes   []routeEntry `json:"routes"`
	Tags     []string     `json:"tags"`
	Revision int          `json:"revision_number"`

	// entries and tagSet say what Routes and Tags have: see index.
	entries map[routeEntry]bool
	tagSet  map[string]bool
}

// index makes what is looked up in a table of thousands of routes.
func (t *routeTable) index() {
	t.entries, t.tagSet = make(map[routeEntry]bool, len(t.Routes)), make(map[string]bool, len(t.Tags))
	for _, e := range t.Routes {
		t.entries[e.plain()] = true
	}
	for _, tag := range t.Tags {
		t.tagSet[tag] = true
	}
}

// routeEntry is one route as Neutron writes it.
type routeEntry struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

func entryOf(route cloud.Route) routeEntry {
	return routeEntry{Destination: route.Destination.Masked().String(), NextHop: route.NextHop.String()}
}

// parse reads an entry; ok is false for what is no route.
func (e routeEntry) parse() (route cloud.Route, ok bool) {
	dst, err := netip.ParsePrefix(e.Destination)
	hop, hopErr := netip.ParseAddr(e.NextHop)
	if err != nil || hopErr != nil {
		return cloud.Route{}, false
	}
	return cloud.Route{Destination: dst.Masked(), NextHop: hop.Unmap()}, true
}

// plain is the entry as entryOf writes it, so that routes are compared by what they mean and
// not by how they are written.
func (e routeEntry) plain() routeEntry {
	if r, ok := e.parse(); ok {
		return entryOf(r)
	}
	return e
}

func (t *routeTable) has(route cloud.Route) bool { return t.entries[entryOf(route)] }

// readTable reads the router.
func (r *Routes) readTable(ctx context.Context) (*routeTable, error) {
	op := "get router " + r.router
	t, err := api.Get[routeTable](ctx, r.c.On(ctx, api.Network, op), "router", "routers", r.router)
	if err != nil {
		return nil, routerError(err)
	}
	return t.checked(op)
}

// checked is the table, to be used. A missing one is never taken for an empty one: the records of
// all routes would go, and a table that is written back would lose those of others.
func (t *routeTable) checked(op string) (*routeTable, error) {
	switch {
	case t.ID == "":
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer is not about this router")}
	case t.Routes == nil:
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer has no table of routes; does Neutron have the extension extraroute?")}
	}
	t.index()
	return t, nil
}

// routerError keeps a missing router from being taken for a missing route.
func routerError(err error) error {
	if cloud.IsNotFound(err) {
		return cloud.Errorf(cloud.KindInvalid, "[Route] router-id names a router that does not exist: %w", err)
	}
	return err
}

// change adds or removes entries in the table and returns the table as it then is.
func (r *Routes) change(ctx context.Context, can map[string]bool, entries []routeEntry, add bool) ([]routeEntry, error) {
	switch {
	case !can["extraroute-atomic"]:
		return r.replaceTable(ctx, can, entries, add)
	case add:
		return r.put(ctx, "add routes to router "+r.router, "add_extraroutes", entries, nil)
	}
	return r.put(ctx, "remove routes from router "+r.router, "remove_extraroutes", entries, nil)
}

const (
	replaceTries = 5
	replacePause = 200 * time.Millisecond
)

// replaceTable is for a Neutron without extraroute-atomic: it reads the table and writes it
// back changed, with the revision as a guard against changes by others in between.
func (r *Routes) replaceTable(ctx context.Context, can map[string]bool, entries []routeEntry, add bool) ([]routeEntry, error) {
	op := "replace routes of router " + r.router
	pause := replacePause
	for range replaceTries {
		t, err := r.readTable(ctx)
		if err != nil {
			return nil, err
		}
		table, err := r.put(ctx, op, "", merge(t.Routes, entries, add), neutron.Guard(can, t.Revision))
		if err == nil {
			return table, nil
		}
		// A lost race is 412, but from Neutron with OVN 500 as well: look whether it was one.
		if kind := cloud.KindOf(err); kind != cloud.KindStale && kind != cloud.KindUnavailable && kind != cloud.KindUnknown {
			return nil, err
		}
		now, readErr := r.readTable(ctx)
		if readErr != nil || now.Revision == t.Revision {
			return nil, err
		}
		if err := backoff.Sleep(ctx, clock.RealClock{}, pause); err != nil {
			return nil, &cloud.Error{Op: op, Err: err}
		}
		pause *= 2
	}
	return nil, cloud.Errorf(cloud.KindStale, "%s: the route table kept changing meanwhile", op)
}

// merge is the table with entries added or removed; all others stay as they are written.
func merge(table, entries []routeEntry, add bool) []routeEntry {
	changed := make(map[routeEntry]bool, len(entries))
	for _, e := range entries {
		changed[e.plain()] = true
	}
	out := slices.DeleteFunc(slices.Clone(table), func(e routeEntry) bool { return changed[e.plain()] })
	if add {
		out = append(out, entries...)
	}
	if out == nil {
		out = []routeEntry{} // JSON null would not empty the table
	}
	return out
}

// put changes the router, at action or, where that is empty, itself.
func (r *Routes) put(ctx context.Context, op, action string, entries []routeEntry, headers map[string]string) ([]routeEntry, error) {
	path := []string{"routers", r.router}
	if action != "" {
		path = append(path, action)
	}
	body := map[string]any{"router": map[string]any{"routes": entries}}
	t, err := api.Put[routeTable](ctx, r.c.On(ctx, api.Network, op), "router", api.Change{Path: path, Body: body, Headers: headers})
	if err != nil {
		return nil, routerError(err)
	}
	if t, err = t.checked(op); err != nil {
		return nil, err
	}
	return t.Routes, nil
}
