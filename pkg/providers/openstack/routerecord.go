package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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

// addAbandoned adds the removal of what a crash left: address pairs that are recorded, of
// routes that neither are in the table nor were asked for.
func (b *routeBatch) addAbandoned() {
	asked := map[routeEntry]bool{}
	for _, item := range b.items {
		asked[entryOf(item.route)] = true
	}
	for _, tag := range b.table.Tags {
		route, pair, ok := parseRecord(b.cluster, tag)
		if !ok || !pair || b.table.has(route) {
			continue
		}
		if !asked[entryOf(route)] {
			b.items = append(b.items, &routeItem{route: route})
		}
	}
}

// planRecords says which records the routes to be added still need, before anything is made
// for them, and which of the cluster's records belong to nothing any more.
func (b *routeBatch) planRecords() (want, stale []string) {
	needed := map[string]bool{} // records, without the pair's mark, that stand for something
	for _, e := range b.table.Routes {
		if route, ok := e.parse(); ok {
			needed[recordTag(b.cluster, route)] = true
		}
	}
	for _, item := range b.items {
		if !item.route.Destination.IsValid() || !item.route.NextHop.IsValid() {
			continue
		}
		tag := recordTag(b.cluster, item.route)
		if item.err != nil {
			needed[tag] = true // it may be half done
			continue
		}
		if !item.add {
			continue
		}
		needed[tag] = true
		state := b.table.record(b.cluster, item.route)
		switch {
		case state == recordWithPair:
		case !item.adopt && item.port.needsPair(item.route):
			want = append(want, tag+recordPair)
		case state == recordNone:
			want = append(want, tag)
		}
	}
	wanted := map[string]bool{}
	for _, tag := range want {
		wanted[tag] = true
	}
	for _, tag := range b.table.Tags {
		route, pair, ok := parseRecord(b.cluster, tag)
		if !ok {
			continue
		}
		base := recordTag(b.cluster, route)
		superseded := !pair && wanted[base+recordPair]
		if !needed[base] || superseded {
			stale = append(stale, tag)
		}
	}
	return want, stale
}

// writeRecords adds the records of what is about to be made and removes those of what is
// gone. A failure to remove is not an error: the next change tries again. Each tag is a
// request of its own, one after the other: replacing all of them would lose a tag that
// somebody else sets meanwhile (Neutron fails every If-Match there with 500), and it fails
// some of the requests for one router that arrive together.
func (b *routeBatch) writeRecords(ctx context.Context) error {
	if !b.can["standard-attr-tag"] && !b.can["tag"] && !b.can["tag-ext"] {
		return nil // an old Neutron: nothing is recorded, so nothing is Ours
	}
	want, stale := b.planRecords()
	if len(want)+len(stale) == 0 {
		return nil
	}
	op := "record routes on router " + b.r.routerID()
	sc, err := b.r.c.network(ctx)
	if err != nil {
		return err
	}
	tagsURL := sc.ServiceURL("routers", b.r.routerID(), "tags")
	for _, tag := range want {
		if err := putJSON(ctx, sc, tagsURL+"/"+tag, nil, nil, nil); err != nil {
			return wrapError(op, err)
		}
		b.table.Tags = append(b.table.Tags, tag)
		b.table.tagSet[tag] = true
	}
	for _, tag := range stale {
		if err := deleteQuietly(ctx, sc, tagsURL+"/"+tag); err != nil {
			logger(ctx).V(2).Info("A record of a removed route stays on the router for now", "router", b.r.routerID(), "tag", tag, "err", wrapError(op, err))
		}
	}
	return nil
}

// deleteQuietly deletes; what is gone already is fine.
func deleteQuietly(ctx context.Context, sc *gophercloud.ServiceClient, url string) error {
	resp, err := sc.Delete(ctx, url, &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent, http.StatusOK, http.StatusAccepted, http.StatusNotFound}})
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}
