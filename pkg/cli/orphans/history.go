package orphans

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// An API server that was restored from a backup has forgotten what happened between the backup and the restoration: no object of
// it was made or written then. The load balancers of Services that were made then live, serve, and look like orphans. So something
// is deleted only if the API server remembers the time at which it was made.

const (
	// longestGap is how long the API server may have had nothing written that it still holds. Backups are mostly older.
	longestGap = time.Hour
	// skew is how far the cloud's clock and the API server's may differ.
	skew = 5 * time.Minute

	pageSize = 500
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
	// times are sorted.
	times []time.Time
}

// readHistory asks the API server. What may not be read tells nothing.
func readHistory(ctx context.Context, client metadata.Interface) (*history, error) {
	h := &history{}
	system, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	h.cluster = system.CreationTimestamp.Time
	for _, resource := range witnesses() {
		o := metav1.ListOptions{Limit: pageSize}
		for range mostPages {
			list, err := client.Resource(resource).List(ctx, o)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("list %s, which tell what the API server remembers: %w", resource.Resource, err)
			}
			for i := range list.Items {
				h.add(&list.Items[i])
			}
			if o.Continue = list.Continue; o.Continue == "" {
				break
			}
		}
	}
	slices.SortFunc(h.times, time.Time.Compare)
	return h, nil
}

func (h *history) add(m *metav1.PartialObjectMetadata) {
	h.times = append(h.times, m.CreationTimestamp.Time)
	for _, f := range m.ManagedFields {
		if f.Time != nil {
			h.times = append(h.times, f.Time.Time)
		}
	}
}

// doubt says why the API server may have forgotten what was made at a time; "" where it remembers that time.
func (h *history) doubt(made time.Time) string {
	const stamp = time.RFC3339
	switch {
	case made.IsZero():
		return "the cloud does not tell when it was made, so nothing shows that the API server was not restored from a backup of before"
	case h.cluster.After(made.Add(skew)):
		return fmt.Sprintf("it is older than the cluster whose mark it carries: namespace %s is of %s. The API server looks restored or made anew", metav1.NamespaceSystem, h.cluster.UTC().Format(stamp))
	}
	before := h.cluster
	for _, t := range h.times {
		if t.After(made.Add(-skew)) && before.Before(made.Add(skew)) && t.Sub(before) > longestGap {
			return fmt.Sprintf("the API server holds nothing that was written between %s and %s, when it was made: it looks restored from a backup of before",
				before.UTC().Format(stamp), t.UTC().Format(stamp))
		}
		before = t
	}
	if !before.After(made) {
		return fmt.Sprintf("the API server holds nothing that is as young; its youngest object is of %s. It looks restored from a backup of before", before.UTC().Format(stamp))
	}
	return ""
}
