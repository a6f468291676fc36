package ccm

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// routes implements cloudprovider.Routes. The framework deletes every route that it is
// shown and that fits no node, so it is shown only those that may be deleted.
type routes struct{ *adapter }

var _ cloudprovider.Routes = (*routes)(nil)

// ListRoutes implements cloudprovider.Routes. It leaves out the routes of others: see visible.
func (r *routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	ctx, done, err := r.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := r.provider.Routes.List(ctx, r.cluster)
	if err != nil {
		return nil, fmt.Errorf("list the cloud's routes: %w", err)
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return visible(list, nodes), nil
}

// visible translates the routes that the framework may know of:
//
//   - those that lead a node's pod CIDR to that node, with the node as their target: kept;
//   - those that lead a current node's pod CIDR to another current node: they contradict
//     the cluster's own allocation, whoever made them, and are deleted;
//   - those that the cloud knows as ours: deleted when they fit no node.
//
// All others are an operator's, even if they lie in the pod CIDRs, and are left out.
func visible(list []cloud.Route, nodes []*corev1.Node) []*cloudprovider.Route {
	byAddress := map[netip.Addr][]*corev1.Node{}
	owned := map[netip.Prefix]bool{}
	for _, n := range nodes {
		for _, a := range internalIPs(n) {
			byAddress[a] = append(byAddress[a], n)
		}
		for _, c := range n.Spec.PodCIDRs {
			if p, ok := parseCIDR(c); ok {
				owned[p] = true
			}
		}
	}
	var out []*cloudprovider.Route
	for _, route := range list {
		target, destination := (*corev1.Node)(nil), route.Destination.String()
		for _, n := range byAddress[route.NextHop] {
			if cidr, ok := podCIDR(n, route.Destination); ok {
				target, destination = n, cidr
			}
		}
		contradicts := target == nil && owned[route.Destination] && len(byAddress[route.NextHop]) > 0
		if target == nil && !contradicts && !route.Ours {
			continue
		}
		shown := &cloudprovider.Route{
			Name:            routeName(route),
			DestinationCIDR: destination,
			Blackhole:       !route.NextHop.IsValid(),
		}
		if target != nil {
			shown.TargetNode = types.NodeName(target.Name)
			shown.TargetNodeAddresses = target.Status.Addresses
		}
		out = append(out, shown)
	}
	return out
}

// CreateRoute implements cloudprovider.Routes.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	ctx, done, err := r.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	destination, ok := parseCIDR(route.DestinationCIDR)
	if !ok {
		return cloud.Errorf(cloud.KindInvalid, "node %s: pod CIDR %q is not a CIDR", route.TargetNode, route.DestinationCIDR)
	}
	node, err := r.nodes.Get(string(route.TargetNode))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s is gone", route.TargetNode)
	} else if err != nil {
		return fmt.Errorf("get node %s: %w", route.TargetNode, err)
	}
	hops := internalIPs(node)
	k := slices.IndexFunc(hops, func(a netip.Addr) bool { return a.Is4() == destination.Addr().Is4() })
	switch {
	case k < 0 && isUninitialized(node):
		return fmt.Errorf("node %s %s", node.Name, waitsForAddresses)
	case k < 0:
		return cloud.Errorf(cloud.KindInvalid, "node %s has no InternalIP of the IP family of its pod CIDR %s", node.Name, route.DestinationCIDR)
	}
	add := cloud.Route{Destination: destination, NextHop: hops[k], Node: refOf(node)}
	return first(r.provider.Routes.Apply(ctx, r.cluster, []cloud.Route{add}, nil))
}

// DeleteRoute implements cloudprovider.Routes: route is as ListRoutes returned it.
func (r *routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	ctx, done, err := r.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	remove, err := parseRouteName(route.Name)
	if err != nil {
		return err
	}
	return first(r.provider.Routes.Apply(ctx, r.cluster, nil, []cloud.Route{remove}))
}

// first returns the only answer about one route.
func first(errs []error) error {
	if len(errs) != 1 {
		return fmt.Errorf("the provider gave %d answers about one route, which is a bug in it", len(errs))
	}
	return errs[0]
}

const (
	routeVia       = " via "
	routeBlackhole = "nothing"
)

// routeName names a route by what identifies it in the cloud.
func routeName(r cloud.Route) string {
	if !r.NextHop.IsValid() {
		return r.Destination.String() + routeVia + routeBlackhole
	}
	return r.Destination.String() + routeVia + r.NextHop.String()
}

// parseRouteName is the inverse of routeName.
func parseRouteName(name string) (cloud.Route, error) {
	destination, hop, _ := strings.Cut(name, routeVia)
	p, err := netip.ParsePrefix(destination)
	if err != nil {
		return cloud.Route{}, fmt.Errorf("route %q was not made by ListRoutes: %w", name, err)
	}
	if hop == routeBlackhole {
		return cloud.Route{Destination: p}, nil
	}
	a, err := netip.ParseAddr(hop)
	if err != nil {
		return cloud.Route{}, fmt.Errorf("route %q was not made by ListRoutes: %w", name, err)
	}
	return cloud.Route{Destination: p, NextHop: a}, nil
}

// internalIPs returns the node's InternalIPs in their order.
func internalIPs(node *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// podCIDR returns the node's own spelling of p, if p is one of its pod CIDRs.
func podCIDR(node *corev1.Node, p netip.Prefix) (string, bool) {
	for _, c := range node.Spec.PodCIDRs {
		if own, ok := parseCIDR(c); ok && own == p.Masked() {
			return c, true
		}
	}
	return "", false
}

func parseCIDR(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil
}
