package cloud

import (
	"context"
	"net/netip"
	"slices"
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
	// ID is the cluster's name in the cloud's marks, see Provider.Identify.
	ID string
	// PodCIDRs are --cluster-cidr; only Routes uses them.
	PodCIDRs []netip.Prefix
}

// HasPods reports whether the prefix lies inside one of the cluster's pod CIDRs.
func (c Cluster) HasPods(p netip.Prefix) bool {
	return slices.ContainsFunc(c.PodCIDRs, func(o netip.Prefix) bool {
		return o.Addr().Is4() == p.Addr().Is4() && o.Bits() <= p.Bits() && o.Contains(p.Addr())
	})
}

// Route is one pod CIDR's way to its node. Exactly one of NextHop, Target and Blackhole says where
// it leads.
type Route struct {
	// Destination is the pod CIDR.
	Destination netip.Prefix
	// NextHop is the node's address of the same family.
	NextHop netip.Addr
	// Target is the provider ID of the node's instance, as Instance.ProviderID has it, in clouds
	// whose routes lead to instances (RouteTraits.ToInstance).
	Target string
	// Blackhole is set by List: the route leads nowhere, as one whose instance is gone. It may be
	// removed, and is never added.
	Blackhole bool
	// ID is the cloud's own name of the route, for the provider alone; set by List.
	ID string
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

// CheckHop is KindInvalid unless r leads to an address of its destination's family.
func (r Route) CheckHop() error {
	if !r.Destination.IsValid() || !r.NextHop.IsValid() {
		return Errorf(KindInvalid, "route to %s via %s: destination and next hop are both needed", r.Destination, r.NextHop)
	}
	if r.Destination.Addr().Is4() != r.NextHop.Is4() {
		return Errorf(KindInvalid, "route to %s via %s: the address families differ", r.Destination, r.NextHop)
	}
	return nil
}

// Hop is where a Route leads. It is comparable.
type Hop struct {
	Addr      netip.Addr
	Target    string
	Blackhole bool
}

// Hop returns where r leads.
func (r Route) Hop() Hop { return Hop{Addr: r.NextHop, Target: r.Target, Blackhole: r.Blackhole} }

// String names the hop for people.
func (h Hop) String() string {
	switch {
	case h.Blackhole:
		return "blackhole"
	case h.Target != "":
		return h.Target
	}
	return h.Addr.String()
}

// RouteTraits are what the planner must know of a cloud's routes. The zero value is a table of
// any size whose routes lead to addresses, several from one destination where that is wished.
type RouteTraits struct {
	// ToInstance: routes lead to instances (Route.Target) and not to addresses.
	ToInstance bool
	// OneHop: a destination has one route. Adding one replaces another one that is Ours, or a
	// blackhole; whatever else is in its way is KindConflict.
	OneHop bool
	// Max is how many routes the table can hold; 0 for no known limit. A table that others fill,
	// too, is full before: that is an error of Apply.
	Max int
}
