package routes

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// taintUninitialized is on Nodes whose addresses are not known yet.
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// path is what makes two routes the same.
type path struct {
	destination netip.Prefix
	nextHop     netip.Addr
}

func pathOf(r cloud.Route) path { return path{r.Destination.Masked(), r.NextHop} }

// plan is what a pass has to do.
//
// A route is the cluster's if the cloud has a record of it, or if it leads a Node's pod CIDR
// to that Node, now or when it was seen before (known); the latter are to be recorded
// (adopt), so that they can be deleted when their Node is gone. The cluster's routes to a CIDR
// that is no Node's are deleted where Guard lets them go (gone). Those to a Node's CIDR that do
// not lead there are deleted (remove), but not while that Node has no address to compare with.
// So are routes that lead the pod CIDR of one Node to another one: they contradict the
// cluster's own allocation, whoever made them. All others are somebody else's and stay.
type plan struct {
	add, adopt, remove, gone []cloud.Route
	// fitting are the paths of the list that lead a Node's pod CIDR to it.
	fitting map[path]bool
	// need says, by the Node's name, which routes it must have: those that are there, and
	// those to be added.
	need map[string][]path
	// problems are why a Node cannot have all its routes, by its name; silent are Nodes that
	// are only new.
	problems map[string]string
	silent   map[string]bool
	// conflicts are routes of others for a Node's pod CIDR, by the Node's name.
	conflicts map[string][]path
	// known are the paths of the list that lead a Node's pod CIDR to it, or did before.
	known map[path]bool
}

// makePlan compares the cloud's routes with the Nodes.
func makePlan(list []cloud.Route, nodes []*corev1.Node, known map[path]bool) *plan {
	p := &plan{need: map[string][]path{}, problems: map[string]string{}, silent: map[string]bool{}, conflicts: map[string][]path{},
		fitting: map[path]bool{}, known: map[path]bool{}}
	addresses, owners := index(nodes)
	there := map[path]cloud.Route{}
	for _, r := range list {
		at := pathOf(r)
		k := slices.IndexFunc(owners[at.destination], func(n *corev1.Node) bool { return slices.Contains(internalIPs(n), at.nextHop) })
		switch {
		case k >= 0:
			there[at], p.known[at], p.fitting[at] = r, true, true
			if !r.Ours && !r.Partial {
				r.Node = refOf(owners[at.destination][k])
				p.adopt = append(p.adopt, r)
			}
		case (r.Ours || known[at]) && !addresses[at.nextHop] && slices.ContainsFunc(owners[at.destination], func(n *corev1.Node) bool { return hopOf(n, at.destination) < 0 }):
			if known[at] { // its Node does not say where it is now: pods may be reachable by the route still
				p.known[at] = true
			}
		case r.Ours || known[at] || len(owners[at.destination]) > 0 && addresses[at.nextHop]:
			if len(owners[at.destination]) > 0 {
				p.remove = append(p.remove, r)
			} else {
				p.gone = append(p.gone, r)
			}
			if known[at] {
				p.known[at] = true // until it is gone
			}
		default:
			for _, n := range owners[at.destination] {
				p.conflicts[n.Name] = append(p.conflicts[n.Name], at)
			}
		}
	}
	for _, n := range nodes {
		p.want(n, there)
	}
	return p
}

// index returns the Nodes' addresses, and whose the pod CIDRs are.
func index(nodes []*corev1.Node) (addresses map[netip.Addr]bool, owners map[netip.Prefix][]*corev1.Node) {
	addresses, owners = map[netip.Addr]bool{}, map[netip.Prefix][]*corev1.Node{}
	for _, n := range nodes {
		for _, a := range internalIPs(n) {
			addresses[a] = true
		}
		for _, c := range podCIDRs(n) {
			owners[c] = append(owners[c], n)
		}
	}
	return addresses, owners
}

// want plans the Node's own routes.
func (p *plan) want(n *corev1.Node, there map[path]cloud.Route) {
	hops := internalIPs(n)
	for _, cidr := range podCIDRs(n) {
		at := path{destination: cidr}
		found := false
		for _, hop := range hops {
			if r, ok := there[path{cidr, hop}]; ok && !r.Partial {
				at, found = pathOf(r), true
				break
			}
		}
		if !found {
			k := hopOf(n, cidr)
			if k < 0 {
				p.problems[n.Name] = fmt.Sprintf("node %s has no InternalIP of the IP family of its pod CIDR %s", n.Name, cidr)
				p.silent[n.Name] = isUninitialized(n)
				continue
			}
			at.nextHop = hops[k]
			p.add = append(p.add, cloud.Route{Destination: cidr, NextHop: at.nextHop, Node: refOf(n)})
		}
		p.need[n.Name] = append(p.need[n.Name], at)
	}
}

func refOf(n *corev1.Node) cloud.InstanceRef {
	return cloud.InstanceRef{NodeName: n.Name, ProviderID: n.Spec.ProviderID}
}

func isUninitialized(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintUninitialized })
}

// hopOf is which of the Node's InternalIPs is to be the next hop to the CIDR; -1 is none.
func hopOf(n *corev1.Node, cidr netip.Prefix) int {
	return slices.IndexFunc(internalIPs(n), func(a netip.Addr) bool { return a.Is4() == cidr.Addr().Is4() })
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
