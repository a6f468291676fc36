package orphans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
)

// An API server that was restored from a backup has forgotten what happened between the backup and the restoration: no object of
// it was made or written then. The load balancers of Services that were made then live, serve, and look like orphans. So something
// is deleted only if the API server remembers the time at which it was made.
//
// A quiet cluster holds nothing of many times, as only the last write of an object is told. But whatever is written, such as the
// leases that are renewed all the time, raises the store's revision, which the next object tells: where the revision stood still, the
// API server was not there, or has forgotten.

const (
	// longestGap is how long the API server may have had nothing written that it still holds, however the revision went on.
	longestGap = time.Hour
	// shortestGap is how long it may have had so though the revision stood still.
	shortestGap = 5 * time.Minute
	// skew is how far the cloud's clock and the API server's may differ.
	skew = 5 * time.Minute
	// slowest is how much time a living cluster lets pass for one revision at most: each API server renews a lease every 10 s.
	slowest = 20 * time.Second
	// usual is what part of the cluster's usual revisions there are in a time at least, estimated where they are told of a longer time.
	usual, estimated = 5, 2

	// mostPages of each resource are read.
	mostPages = 40
)

// witnesses are the resources that are asked when they were written: those of which there are many, or that are made often.
func witnesses() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "nodes"}, {Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "events"},
		{Group: "apps", Version: "v1", Resource: "replicasets"}, {Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	}
}

// history is when the API server's objects were made and written, as far as they still tell.
type history struct {
	// cluster is when the cluster was made, by its namespace kube-system.
	cluster time.Time
	// writes are sorted by their times.
	writes []moment
	// gap is shortestGap, skew is skew, but in tests.
	gap, skew time.Duration
}

// moment is when an object was written.
type moment struct {
	at time.Time
	// revision is the store's of a write at told, which is then or later; 0 where none is known.
	revision uint64
	told     time.Time
}

// read asks the API server. What may not be read tells nothing.
func (h *history) read(ctx context.Context, client kubernetes.Interface, written metadata.Interface) (*history, error) {
	system, err := written.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, access.Failed(ctx, client, "read namespace "+metav1.NamespaceSystem, err)
	}
	h.cluster = system.CreationTimestamp.Time
	for _, resource := range witnesses() {
		o := metav1.ListOptions{Limit: access.PageSize}
		for range mostPages {
			list, err := written.Resource(resource).List(ctx, o)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return nil, access.Failed(ctx, client, "list "+resource.Resource+", which tell what the API server remembers", err)
			}
			for i := range list.Items {
				h.add(&list.Items[i])
			}
			if o.Continue = list.Continue; o.Continue == "" {
				break
			}
		}
	}
	h.sort()
	return h, nil
}

// add notes when an object was made, and when it was written. The revision is that of its last write.
func (h *history) add(m *metav1.PartialObjectMetadata) {
	last := moment{at: m.CreationTimestamp.Time}
	for _, f := range m.ManagedFields {
		if f.Time == nil {
			continue
		}
		if h.writes = append(h.writes, moment{at: f.Time.Time}); f.Time.After(last.at) {
			last.at = f.Time.Time
		}
	}
	last.told = last.at
	last.revision, _ = strconv.ParseUint(m.ResourceVersion, 10, 64) // 0 where it is no number, which proves nothing
	h.writes = append(h.writes, moment{at: m.CreationTimestamp.Time}, last)
}

// sort puts the writes into order, and gives those without a revision that of the next. No revision is greater than one of a later
// write: an object may have been written once more than its times tell.
func (h *history) sort() {
	slices.SortFunc(h.writes, func(a, b moment) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.revision, b.revision)) })
	var next moment
	for i := range slices.Backward(h.writes) {
		w := &h.writes[i]
		if w.revision == 0 || next.revision != 0 && next.revision < w.revision {
			w.revision, w.told = next.revision, next.told
		}
		next = *w
	}
}

// doubt says why the API server may have forgotten what was made at a time; "" where it remembers that time.
func (h *history) doubt(made time.Time) string {
	const stamp = time.RFC3339
	switch {
	case made.IsZero():
		return "the cloud does not tell when it was made, so nothing shows that the API server was not restored from a backup of before"
	case h.cluster.After(made.Add(h.skew)):
		return fmt.Sprintf("it is older than the cluster whose mark it carries: namespace %s is of %s. The API server looks restored or made anew", metav1.NamespaceSystem, h.cluster.UTC().Format(stamp))
	}
	before := moment{at: h.cluster}
	for _, w := range h.writes {
		if w.at.After(made.Add(-h.skew)) && before.at.Before(made.Add(h.skew)) && h.forgets(before, w) {
			return fmt.Sprintf("the API server holds nothing that was written between %s and %s, when it was made: it looks restored from a backup of before",
				before.at.UTC().Format(stamp), w.at.UTC().Format(stamp))
		}
		before = w
	}
	if !before.at.After(made) {
		return fmt.Sprintf("the API server holds nothing that is as young; its youngest object is of %s. It looks restored from a backup of before", before.at.UTC().Format(stamp))
	}
	return ""
}

// forgets reports whether the API server may have forgotten, or missed, what was between two writes of which it holds none between them.
func (h *history) forgets(a, b moment) bool {
	gap := b.at.Sub(a.at)
	if gap <= h.gap {
		return false
	}
	if gap > longestGap || a.revision == 0 || b.revision < a.revision {
		return true
	}
	rate := 0.0 // usual revisions in a nanosecond
	if first, last := h.writes[0], h.writes[len(h.writes)-1]; last.told.After(first.at) && last.revision > first.revision {
		rate = float64(last.revision-first.revision) / float64(last.told.Sub(first.at))
	}
	went, least := float64(b.revision-a.revision), rate/usual
	if b.told.After(b.at) { // what came after b is not of the gap
		went, least = went-rate*float64(b.told.Sub(b.at)), rate/estimated
	}
	return went < max(1/float64(slowest), least)*float64(gap)
}
