package router

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// recordState is what the records say of a route.
type recordState int

const (
	recordNone     recordState = iota // not ours
	recordRoute                       // the route is ours, the address pair was there before
	recordWithPair                    // both are ours
)

// recordTag is the record of a route whose address pair is not ours; with marks.Beside the pair is,
// too. It has at most the 60 characters that Neutron takes.
func recordTag(cluster cloud.Cluster, route cloud.Route) string {
	return marks.Route(cluster.UID, route.Destination, route.NextHop)
}

// parseRecord reads a record of the cluster; ok is false for any other tag.
func parseRecord(cluster cloud.Cluster, tag string) (route cloud.Route, pair, ok bool) {
	route.Destination, route.NextHop, pair, ok = marks.ParseRoute(cluster.UID, tag)
	return route, pair, ok
}

// record is what the table's records say of the route.
func (t *routeTable) record(cluster cloud.Cluster, route cloud.Route) recordState {
	tag := recordTag(cluster, route)
	switch {
	case t.tagSet[tag+marks.Beside]:
		return recordWithPair
	case t.tagSet[tag]:
		return recordRoute
	}
	return recordNone
}

// addAbandoned adds the removal of what was left half done: address pairs of ours, of routes
// that neither are in the table nor were asked for.
func (b *routeBatch) addAbandoned() {
	asked := map[routeEntry]bool{}
	for _, item := range b.items {
		asked[entryOf(item.route)] = true
	}
	add := func(route cloud.Route) {
		if e := entryOf(route); !asked[e] && !b.table.has(route) {
			asked[e] = true
			b.items = append(b.items, &routeItem{route: route})
		}
	}
	for _, tag := range b.table.Tags {
		if route, pair, ok := parseRecord(b.cluster, tag); ok && pair {
			add(route)
		}
	}
	for e := range b.r.pairs {
		if route, ok := e.parse(); ok {
			add(route)
		}
	}
}

// wantedRecord is a record that is to be written.
type wantedRecord struct {
	tag  string
	item *routeItem
}

// missingRecords are the records that the routes to be added still need, of those that pick
// picks.
func (b *routeBatch) missingRecords(pick func(*routeItem) bool) []wantedRecord {
	var out []wantedRecord
	asked := map[string]bool{}
	for _, item := range b.open(true) {
		if !pick(item) {
			continue
		}
		tag := recordTag(b.cluster, item.route)
		state := b.table.record(b.cluster, item.route)
		switch {
		case state == recordWithPair:
			continue
		case b.ownsPair(item.route):
			tag += marks.Beside
		case state == recordRoute:
			continue
		}
		if !asked[tag] {
			asked[tag] = true
			out = append(out, wantedRecord{tag, item})
		}
	}
	return out
}

// staleRecords are the cluster's records that belong to nothing any more.
func (b *routeBatch) staleRecords() []string {
	needed := map[string]bool{} // records, without the pair's mark, that stand for something
	for _, e := range b.table.Routes {
		if route, ok := e.parse(); ok {
			needed[recordTag(b.cluster, route)] = true
		}
	}
	for _, item := range b.items {
		if (item.add || item.err != nil) && item.route.CheckHop() == nil { // with an error it may be half done
			needed[recordTag(b.cluster, item.route)] = true
		}
	}
	var stale []string
	for _, tag := range b.table.Tags {
		route, pair, ok := parseRecord(b.cluster, tag)
		if !ok {
			continue
		}
		base := recordTag(b.cluster, route)
		if superseded := !pair && b.table.tagSet[base+marks.Beside]; !needed[base] || superseded {
			stale = append(stale, tag)
		}
	}
	return stale
}

// keepsRecords reports whether the router can have tags. On an old Neutron it cannot: then
// nothing is recorded, so nothing is Ours.
func (b *routeBatch) keepsRecords() bool {
	return b.can["standard-attr-tag"] || b.can["tag"] || b.can["tag-ext"]
}

// recordAhead records new routes before they are made, unless they are many: those are
// recorded when they are asked for again. A route is made whether it has its record or not.
func (b *routeBatch) recordAhead(ctx context.Context) {
	if want := b.missingRecords(func(item *routeItem) bool { return !item.adopt }); len(want) <= recordsAhead {
		for tag, err := range b.writeRecords(ctx, want) {
			klog.FromContext(ctx).V(2).Info("A route has no record for now", "router", b.r.router, "tag", tag, "err", err)
		}
	}
}

// recordBehind records the routes that were asked for and there already, and removes the
// records of what is gone. A failure to remove is not an error: the next change tries again.
func (b *routeBatch) recordBehind(ctx context.Context) {
	want := b.missingRecords(func(item *routeItem) bool { return item.adopt })
	errs := b.writeRecords(ctx, want)
	for _, w := range want {
		w.item.err = errs[w.tag]
	}
	for _, item := range b.items {
		if !item.add && item.err == nil {
			delete(b.r.pairs, entryOf(item.route))
		}
	}
	if !b.keepsRecords() {
		return
	}
	for _, tag := range b.staleRecords() {
		if err := b.r.c.On(ctx, api.Network, "remove record").Delete(ctx, b.tagPath(tag)...); err != nil {
			klog.FromContext(ctx).V(2).Info("A record of a removed route stays on the router for now", "router", b.r.router, "tag", tag, "err", err)
		}
	}
}

// recordFailures in a row end the writing of records for this time.
const recordFailures = 3

// writeRecords writes records and returns why some could not be written, by their tags. Each
// is a request of its own, one after the other: replacing all tags would lose one that
// somebody else sets meanwhile (Neutron fails every If-Match there with 500), and it fails
// some of the requests for one router that arrive together.
func (b *routeBatch) writeRecords(ctx context.Context, want []wantedRecord) map[string]error {
	if !b.keepsRecords() {
		return nil
	}
	errs := map[string]error{}
	inARow := 0
	var last error
	for _, w := range want {
		if inARow < recordFailures {
			if last = b.writeRecord(ctx, w.tag); last == nil {
				inARow = 0
				delete(b.r.pairs, entryOf(w.item.route)) // the record says it now
				continue
			}
			inARow++
		}
		errs[w.tag] = last
	}
	return errs
}

func (b *routeBatch) writeRecord(ctx context.Context, tag string) error {
	if _, err := api.Put[struct{}](ctx, b.r.c.On(ctx, api.Network, "record a route on router "+b.r.router), "", api.Change{Path: b.tagPath(tag)}); err != nil {
		return err
	}
	b.table.Tags = append(b.table.Tags, tag)
	b.table.tagSet[tag] = true
	return nil
}

func (b *routeBatch) tagPath(tag string) []string {
	return []string{"routers", b.r.router, "tags", tag}
}
