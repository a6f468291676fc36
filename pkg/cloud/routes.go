package cloud

import (
	"context"
	"net/netip"
)

// Routes manages the cloud's routes from pod CIDRs to nodes.
type Routes interface {
	// List returns every route of the cloud's table(s) whose destination lies inside one of
	// the cluster's pod CIDRs, whoever made it, and those outside that are recorded as ours.
	List(ctx context.Context, cluster Cluster) ([]Route, error)
	// Apply adds and removes routes as one set, in as few API calls as the cloud allows.
	// What is there already (add) or absent already (remove) counts as done; what is there
	// and shall be is recorded as ours, if it was not, and not changed otherwise. A new route
	// neither waits for the records of many others nor fails for its own: where that is still
	// to be written List says that it is not Ours, and naming it again in add does it. Apply
	// touches no other route. The answers match add, then remove, in their order; nil is success.
	Apply(ctx context.Context, cluster Cluster, add, remove []Route) []error
}

// Cluster says who asks: what is made in the cloud is named and marked after it.
type Cluster struct {
	// Name is --cluster-name, "kubernetes" by default. Not unique.
	Name string
	// UID is the UID of the namespace kube-system: unique, never changes.
	UID string
	// PodCIDRs are --cluster-cidr; only Routes uses them.
	PodCIDRs []netip.Prefix
}

// Route is one pod CIDR's way to its node.
type Route struct {
	// Destination is the pod CIDR.
	Destination netip.Prefix
	// NextHop is the node's address of the same family; invalid (zero) for a blackhole.
	NextHop netip.Addr
	// Node is the node's instance; filled in by callers of Apply where the node still
	// exists, never by List, which only knows addresses.
	Node InstanceRef
	// Ours is set by List when the cloud holds a record that this route is this cluster's:
	// Isthmus made it, or was asked for it when it was there.
	Ours bool
	// Partial is set by List when the route is missing in one of several tables that it
	// belongs to; adding it again completes it.
	Partial bool
}
