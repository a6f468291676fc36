package routes

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// taintUninitialized is on Nodes whose addresses are not known yet.
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// routing is what a plan depends on beside routes and Nodes.
type routing struct {
	cloud.RouteTraits
	owns func(*corev1.Node) bool
}

func refOf(n *corev1.Node) cloud.InstanceRef {
	return cloud.InstanceRef{NodeName: n.Name, ProviderID: n.Spec.ProviderID}
}

func isUninitialized(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintUninitialized })
}

// hopsOf are the Node's hops in their order.
func (r routing) hopsOf(n *corev1.Node) []cloud.Hop {
	var out []cloud.Hop
	switch {
	case !r.ToInstance:
		for _, a := range internalIPs(n) {
			out = append(out, cloud.Hop{Addr: a})
		}
	case n.Spec.ProviderID != "" && r.owns(n):
		out = append(out, cloud.Hop{Target: n.Spec.ProviderID})
	}
	return out
}

// hopOf is which of the Node's hops is to be that of the CIDR's route; -1 is none.
func (r routing) hopOf(n *corev1.Node, cidr netip.Prefix) int {
	return slices.IndexFunc(r.hopsOf(n), func(h cloud.Hop) bool { return r.ToInstance || h.Addr.Is4() == cidr.Addr().Is4() })
}

// internalIPs returns the Node's InternalIPs in their order.
func internalIPs(n *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// podCIDRs returns the Node's pod CIDRs, which may be written as only old versions allowed.
func podCIDRs(n *corev1.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range n.Spec.PodCIDRs {
		_, c, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if addr, ok := netip.AddrFromSlice(c.IP); ok {
			ones, _ := c.Mask.Size()
			out = append(out, netip.PrefixFrom(addr, ones))
		}
	}
	return out
}
