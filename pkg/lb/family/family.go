// Package family is what the IP families of a Service mean for a load balancer: by which addresses its
// Nodes are reached, and which clients its source ranges let in.
//
// It does not decide which families are served: that is what a cloud's load balancers can do. A family is
// a bool, true for IPv6.
package family

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// mostNamed is how many Nodes a warning names.
const mostNamed = 10

// name is what Kubernetes calls the family.
func name(ipv6 bool) corev1.IPFamily {
	if ipv6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// Everyone is the range of all addresses of the family.
func Everyone(ipv6 bool) netip.Prefix {
	if ipv6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// Ranges are those of the family, in their order.
func Ranges(ranges []netip.Prefix, ipv6 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ranges), func(p netip.Prefix) bool { return p.Addr().Is6() != ipv6 })
}

// Restrict reports whether source ranges keep anybody out, of either family. No range lets everyone in;
// ranges of one family let nobody of the other in.
func Restrict(ranges []netip.Prefix) bool {
	return len(ranges) > 0 && (!slices.Contains(ranges, Everyone(false)) || !slices.Contains(ranges, Everyone(true)))
}

// RangesPath is where the source ranges of a Service stand: in the annotation, unless they are not those
// that it names.
func RangesPath(spec *cloud.LoadBalancerSpec) *field.Path {
	const key = corev1.AnnotationLoadBalancerSourceRangesKey
	named := map[netip.Prefix]bool{}
	for item := range strings.SplitSeq(spec.Settings.String(key, ""), ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(item)); err == nil {
			named[p.Masked()] = true
		}
	}
	for _, p := range spec.SourceRanges {
		if !named[p] {
			return field.NewPath("spec", "loadBalancerSourceRanges")
		}
	}
	return cloud.AnnotationPath(key)
}

// Member is a Node by the address that it is reached by.
type Member struct {
	Node    string
	Address netip.Addr
}

// Address is a Node's first address of the family; ok is false where it has none.
func Address(m cloud.LoadBalancerMember, ipv6 bool) (address netip.Addr, ok bool) {
	i := slices.IndexFunc(m.Addresses, func(a netip.Addr) bool { return a.Is6() == ipv6 })
	if i < 0 {
		return netip.Addr{}, false
	}
	return m.Addresses[i], true
}

// Members are those of all that have an address of the family, in their order and each address once.
// Warnings are of those that get no traffic of it.
func Members(all []cloud.LoadBalancerMember, ipv6 bool) (members []Member, warnings []string) {
	var without []string
	has := map[netip.Addr]string{}
	for _, m := range all {
		address, ok := Address(m, ipv6)
		if !ok {
			without = append(without, m.Node.NodeName)
			continue
		}
		if other, taken := has[address]; taken {
			warnings = append(warnings, fmt.Sprintf("nodes %s and %s have the same address %s: only the first gets traffic", other, m.Node.NodeName, address))
			continue
		}
		has[address] = m.Node.NodeName
		members = append(members, Member{Node: m.Node.NodeName, Address: address})
	}
	if len(without) > 0 {
		warnings = append(warnings, fmt.Sprintf("%d nodes have no %s address and get no traffic of it: %s", len(without), name(ipv6), strings.Join(without[:min(len(without), mostNamed)], ", ")))
	}
	return members, warnings
}
