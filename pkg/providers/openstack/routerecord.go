package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// A record says that Isthmus made a route for a cluster: a tag on the router,
//
//	isthmus-route-<8 hex digits of the cluster's UID>-<16 of destination and next hop>[-p]
//
// where -p says that the allowed address pair on the node's port is ours as well. Hashes
// keep it short (tags have 60 characters) and fit for a URL's path; the next hop is in it so
// that an operator who points the destination elsewhere owns that route from then on.
const (
	recordPrefix = "isthmus-route-"
	recordPair   = "-p"
)

// recordState is what the records say of a route.
type recordState int

const (
	recordNone     recordState = iota // not ours
	recordRoute                       // the route is ours, the address pair was there before
	recordWithPair                    // both are ours
)

func hashOf(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "|")))
	return hex.EncodeToString(sum[:])[:n]
}

func clusterRecordPrefix(cluster cloud.Cluster) string {
	return recordPrefix + hashOf(8, cluster.UID) + "-"
}

// recordTag is the record of a route whose address pair is not ours.
func recordTag(cluster cloud.Cluster, route cloud.Route) string {
	return clusterRecordPrefix(cluster) + hashOf(16, cluster.UID, route.Destination.Masked().String(), route.NextHop.String())
}

func recordIn(tags []string, cluster cloud.Cluster, route cloud.Route) recordState {
	tag := recordTag(cluster, route)
	switch {
	case slices.Contains(tags, tag+recordPair):
		return recordWithPair
	case slices.Contains(tags, tag):
		return recordRoute
	}
	return recordNone
}

// planRecords says which of the cluster's records the router needs now, and which of those
// it has belong to nothing: present are the routes in the table, and of the items the ones
// to be added (they need one before anything is made).
func (b *routeBatch) planRecords() (want, stale []string) {
	prefix := clusterRecordPrefix(b.cluster)
	needed := map[string]bool{} // base tags that stand for something
	for _, e := range b.table.Routes {
		if route, ok := e.parse(); ok {
			needed[recordTag(b.cluster, route)] = true
		}
	}
	for _, item := range b.items {
		tag := recordTag(b.cluster, item.route)
		if item.err != nil {
			needed[tag] = true // it may be half done: leave its record alone
			continue
		}
		if !item.add || b.foreign(item) {
			continue
		}
		needed[tag] = true
		state := recordIn(b.table.Tags, b.cluster, item.route)
		switch {
		case state == recordWithPair:
		case item.port.needsPair(item.route):
			want = append(want, tag+recordPair)
		case state == recordNone:
			want = append(want, tag)
		}
	}
	for _, tag := range b.table.Tags {
		base := strings.TrimSuffix(tag, recordPair)
		superseded := base == tag && slices.Contains(want, tag+recordPair)
		if strings.HasPrefix(tag, prefix) && (!needed[base] || superseded) {
			stale = append(stale, tag)
		}
	}
	return want, stale
}

// fewTags is how many tags are changed one by one. That cannot lose a tag that somebody
// else sets meanwhile, as replacing all of them can; but it takes a request for each.
const fewTags = 10

// writeRecords adds the records of what is about to be made and removes those of what is
// gone. A failure to remove is not an error: the next change tries again.
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
	if len(want)+len(stale) > fewTags {
		tags := slices.DeleteFunc(slices.Clone(b.table.Tags), func(t string) bool { return slices.Contains(stale, t) })
		tags = append(tags, want...)
		err := putJSON(ctx, sc, tagsURL, map[string]any{"tags": tags}, nil, nil)
		if err == nil {
			b.table.Tags = tags
		}
		return wrapError(op, err)
	}
	for _, tag := range want {
		if err := putJSON(ctx, sc, tagsURL+"/"+tag, nil, nil, nil); err != nil {
			return wrapError(op, err)
		}
		b.table.Tags = append(b.table.Tags, tag)
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
