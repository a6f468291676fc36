package lb

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// selector combines the annotations of type TypeSelector: their values or, where a Service
// has none, their defaults. A Node must match all of them.
func (p *planner) selector(settings cloud.Settings, vocabulary []cloud.Annotation) labels.Selector {
	out := labels.Everything()
	for _, a := range vocabulary {
		if a.Type != cloud.TypeSelector || a.NotRead {
			continue
		}
		s, err := labels.Parse(settings.String(a.Name, a.Default))
		if err != nil {
			continue // Check has refused a value; the provider's configuration has checked the default
		}
		reqs, _ := s.Requirements()
		out = out.Add(reqs...)
	}
	return out
}

func (p *planner) members(nodes []*corev1.Node, selector labels.Selector) []cloud.LoadBalancerMember {
	var out []cloud.LoadBalancerMember
	var addressless []string
	for _, n := range nodes {
		if !selector.Matches(labels.Set(n.Labels)) {
			continue
		}
		m := cloud.LoadBalancerMember{
			Node:      cloud.InstanceRef{NodeName: n.Name, ProviderID: n.Spec.ProviderID},
			Addresses: internalIPs(n),
		}
		if len(m.Addresses) == 0 {
			addressless = append(addressless, n.Name)
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b cloud.LoadBalancerMember) int { return strings.Compare(a.Node.NodeName, b.Node.NodeName) })
	if len(addressless) > 0 {
		slices.Sort(addressless)
		p.warnf("nodes without an InternalIP get no traffic: %s", shortList(addressless))
	}
	if len(nodes) > 0 && len(out) == 0 && len(addressless) == 0 {
		p.warnf("the node selector %q matches none of %d nodes: the load balancer has no members", selector, len(nodes))
	}
	return out
}

func internalIPs(n *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		addr, err := netip.ParseAddr(a.Address)
		if err != nil {
			continue
		}
		if addr = addr.Unmap(); !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out
}

// shortList joins at most ten items and says how many more there are.
func shortList(items []string) string {
	const most = 10
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return strings.Join(items[:most], ", ") + ", …"
}
