package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
)

// The tag of a load balancer whose IP address type was set here. Others have had theirs set by hand, as the existing manager sets none.
const (
	addressTypeTag = "isthmus-cloud.github.io/ip-address-type"
	dualStack      = "dualstack"
)

// AddressTypeTag is to be set with the IP address type: who has it is made IPv4 alone again when nobody asks for IPv6 any more.
func AddressTypeTag() map[string]string { return map[string]string{addressTypeTag: dualStack} }

// families reads which IP families the Service has, and notes what keeps its load balancer from being reached by IPv6.
func (w *Wish) families(spec *cloud.LoadBalancerSpec) {
	w.IPv6 = slices.Contains(spec.IPFamilies, corev1.IPv6Protocol)
	w.IPv6Only = w.IPv6 && !slices.Contains(spec.IPFamilies, corev1.IPv4Protocol)
	switch {
	case !w.IPv6:
	case hasUDP(spec):
		w.withoutIPv6("network load balancers take UDP by IPv6 only with a prefix for source NAT in each subnet, which is not made here")
	case len(w.Clients6) == 0:
		w.withoutIPv6(family.RangesPath(spec).String() + " has no range of IPv6")
	case w.restricted && !w.Managed:
		w.withoutIPv6(fmt.Sprintf(hidden, family.RangesPath(spec)) + "; set NLBSecurityGroupMode = Managed in [Global] of cloud.conf, and make the Service anew")
	case w.restricted && len(w.SecurityGroups) > 0:
		w.withoutIPv6(fmt.Sprintf(hidden, family.RangesPath(spec)) + "; remove the annotation " + annotations.SecurityGroups)
	}
	if !w.IPv6 {
		w.Clients6 = nil
	}
}

// hidden is why source ranges need a security group of the load balancer's own.
const hidden = "without a security group of the load balancer's own Nodes do not see who comes by another IP family than theirs, so that %s could not be kept"

// withoutIPv6 gives IPv6 up.
func (w *Wish) withoutIPv6(why string) {
	w.IPv6 = false
	w.warnings = append(w.warnings, w.notIPv6(why))
}

func (w *Wish) notIPv6(why string) string {
	if w.IPv6Only {
		return "the Service is not served by IPv6, and its Nodes do not serve it by IPv4: " + why
	}
	return "the Service is served by IPv4 alone: " + why
}

// Settle decides whether the load balancer is to be reached by IPv6, once it is known where it is or will be; seen is nil where there is
// none yet. lacking are its subnets that cannot be reached by IPv6. It returns what is to be warned of.
func (w *Wish) Settle(seen *Balancer, lacking []string) (warnings []string, err error) {
	w.DualStack = false
	switch {
	case !w.IPv6:
		return nil, nil
	case len(lacking) > 0 && (seen == nil || !seen.DualStack):
		warnings = []string{w.notIPv6(fmt.Sprintf("subnets %s have no range of IPv6, or no route of IPv6 to an internet gateway, which one that is not internal needs; add what is missing",
			strings.Join(lacking, ", ")))}
	case w.restricted && seen != nil && len(seen.SecurityGroups) == 0:
		warnings = []string{w.notIPv6(fmt.Sprintf(hidden, "its source ranges") + ", and this one was made without; delete the Service and make it anew")}
	default:
		w.DualStack = true
		return nil, nil
	}
	if len(w.Clients) == 0 {
		return nil, cloud.Errorf(cloud.KindInvalid, "nobody is let in, as there is no range of IPv4: %s", warnings[0])
	}
	return warnings, nil
}

// GiveUpIPv6 has the load balancer stay one of IPv4 after all, and returns what is to be warned of.
func (w *Wish) GiveUpIPv6(cause error) (warning string) {
	w.DualStack = false
	return w.notIPv6(cause.Error())
}

// KeepsIPv6 reports whether a load balancer stays dual-stack: because it shall be, or because nobody here has made it so.
func (w *Wish) KeepsIPv6(seen *Balancer) bool { return w.DualStack || seen.Tags[addressTypeTag] == "" }

// TargetsIPv6 reports whether the load balancer reaches Nodes by IPv6.
func (b *Balancer) TargetsIPv6() bool {
	return slices.ContainsFunc(b.Groups, func(g *TargetGroup) bool { return g.IPv6 && slices.Contains(g.Balancers, b.ARN) })
}

// ReachByIPv6 has Nodes be reached by IPv6 where that is to be, and reports whether it is: where they serve the Service by that alone and any
// of them can be a target, or there is none, and where they are reached so already. IPv4 else reaches all of them, whatever addresses
// they have, and keeps the target groups that there are.
func (w *Wish) ReachByIPv6(ref cloud.LoadBalancerRef, seen *Balancer, able, all int) bool {
	if !w.DualStack || !seen.TargetsIPv6() && (!w.IPv6Only || able == 0 && all > 0) {
		return false
	}
	for i := range w.Listeners {
		g := *w.Listeners[i].Wanted
		g.IPv6 = true
		g.Name = targetGroupName(ref, w.Listeners[i].Port, &g)
		w.Listeners[i].Wanted = &g
	}
	return true
}

// Arriving are the clients whom Nodes see by their own addresses, which are of the family by which Nodes are reached. others says that there
// are some of the other family, who come with the load balancer's addresses and whom no rule for clients lets in.
func (w *Wish) Arriving(seen *Balancer) (clients []netip.Prefix, others bool) {
	six := seen.TargetsIPv6()
	clients, translated := w.Clients, w.Clients6
	if six {
		clients, translated = translated, clients
	}
	return clients, w.DualStack && seen.DualStack && len(translated) > 0 && !slices.Contains(clients, family.Everyone(six))
}
