package router

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// A record says that Isthmus made a route for a cluster: a tag on the router,
//
//	isthmus-<6 characters of the hash of the cluster's UID>-<destination and next hop>[p]
//
// where the end is base64url of the destination's address, its length and the next hop's
// address, and p says that the allowed address pair on the node's port is ours as well. So
// written it never exceeds the 60 characters that a tag may have, fits in a URL's path, and
// can be read back: what a crash left of a route that nobody asks for any more is known. The
// next hop is in it so that an operator who points the destination elsewhere owns that route.
const (
	recordPrefix = "isthmus-"
	recordPair   = "p"
)

// recordState is what the records say of a route.
type recordState int

const (
	recordNone     recordState = iota // not ours
	recordRoute                       // the route is ours, the address pair was there before
	recordWithPair                    // both are ours
)

func clusterRecordPrefix(cluster cloud.Cluster) string {
	sum := sha256.Sum256([]byte(cluster.UID))
	return recordPrefix + base64.RawURLEncoding.EncodeToString(sum[:])[:6] + "-"
}

// recordTag is the record of a route whose address pair is not ours.
func recordTag(cluster cloud.Cluster, route cloud.Route) string {
	dst := route.Destination.Masked()
	raw := append(dst.Addr().AsSlice(), byte(dst.Bits()))
	raw = append(raw, route.NextHop.AsSlice()...)
	return clusterRecordPrefix(cluster) + base64.RawURLEncoding.EncodeToString(raw)
}

// parseRecord reads a record of the cluster; ok is false for any other tag.
func parseRecord(cluster cloud.Cluster, tag string) (route cloud.Route, pair, ok bool) {
	text, ok := strings.CutPrefix(tag, clusterRecordPrefix(cluster))
	if !ok {
		return cloud.Route{}, false, false
	}
	if len(text)%4 == 1 { // both families make a multiple of 4
		text, pair = strings.CutSuffix(text, recordPair)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || (len(raw) != 4+1+4 && len(raw) != 16+1+16) {
		return cloud.Route{}, false, false
	}
	half := len(raw) / 2
	dst, _ := netip.AddrFromSlice(raw[:half])
	route.NextHop, _ = netip.AddrFromSlice(raw[half+1:])
	route.Destination = netip.PrefixFrom(dst, int(raw[half]))
	base := tag
	if pair {
		base = strings.TrimSuffix(tag, recordPair)
	}
	// Only what is written exactly so is ours.
	return route, pair, route.Destination.IsValid() && recordTag(cluster, route) == base
}

// record is what the table's records say of the route.
func (t *routeTable) record(cluster cloud.Cluster, route cloud.Route) recordState {
	tag := recordTag(cluster, route)
	switch {
	case t.tagSet[tag+recordPair]:
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
			tag += recordPair
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
		if (item.add || item.err != nil) && checkRoute(item.route) == nil { // with an error it may be half done
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
		if superseded := !pair && b.table.tagSet[base+recordPair]; !needed[base] || superseded {
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
