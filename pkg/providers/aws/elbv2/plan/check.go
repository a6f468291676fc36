package plan

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

var spec0 = field.NewPath("spec") //nolint:gochecknoglobals // a constant

// onlyClassic are the annotations that network load balancers have no use for.
var onlyClassic = []string{ //nolint:gochecknoglobals // a constant
	annotations.ProxyProtocol, annotations.LogInterval, annotations.DrainingEnabled, annotations.DrainingTimeout, annotations.IdleTimeout,
}

// check notes what a network load balancer cannot be.
func (w *Wish) check(spec *cloud.LoadBalancerSpec) {
	s := spec.Settings
	forbid := func(applies bool, path *field.Path, why string) {
		if applies {
			w.problems = append(w.problems, field.Forbidden(path, why))
		}
	}
	forbid(s.Has(annotations.ExtraSecurityGroups), cloud.AnnotationPath(annotations.ExtraSecurityGroups),
		"network load balancers have no security groups beside their own; name all in "+annotations.SecurityGroups)
	forbid(spec.SessionAffinityTimeout > 0, spec0.Child("sessionAffinity"), "load balancers of AWS do not keep clients with a Node by this; use None")
	forbid(spec.LoadBalancerIP.IsValid(), spec0.Child("loadBalancerIP"),
		"addresses of network load balancers are named by "+annotations.EIPAllocations+" or "+annotations.PrivateAddresses)
	forbid(mixed(spec.Ports), spec0.Child("ports"), "ports of a load balancer must be all TCP or all UDP; use a Service for each")
	for i, p := range spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			w.problems = append(w.problems, field.NotSupported(spec0.Child("ports").Index(i).Child("protocol"), p.Protocol,
				[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}))
		}
	}
	if w.Managed {
		w.problems = append(w.problems, annotations.CheckGroups(s, annotations.SecurityGroups)...)
	}
	w.warnings = append(w.warnings, annotations.ReservedTags(s)...)
	for _, name := range onlyClassic {
		w.warnf(s.Has(name), "annotation %s has no effect on a network load balancer", name)
	}
	backend := s.String(annotations.BackendProtocol, "")
	w.warnf(backend != "" && backend != "ssl" && backend != "tcp",
		"annotation %s = %s has no effect: network load balancers balance connections, whatever is in them", annotations.BackendProtocol, backend)
	w.warnf(!w.Managed && s.Has(annotations.SecurityGroups),
		"annotation %s has no effect without [Global] NLBSecurityGroupMode = Managed of cloud.conf", annotations.SecurityGroups)
	w.warnf(s.Has(annotations.Certificate) && hasUDP(spec), "annotation %s has no effect on UDP", annotations.Certificate)
	w.warnf(!s.Has(annotations.Certificate) && s.Has(annotations.SSLPorts), "annotation %s has no effect without %s",
		annotations.SSLPorts, annotations.Certificate)
	for _, named := range [][]string{w.Allocations, w.PrivateAddresses} {
		if n := len(w.Subnets); n > 0 && named != nil && len(named) != n {
			w.warnf(true, "%d addresses for %d subnets: there must be one for each when the load balancer is made", len(named), n)
		}
	}
}

func mixed(ports []cloud.LoadBalancerPort) bool {
	return slices.ContainsFunc(ports, func(p cloud.LoadBalancerPort) bool { return p.Protocol != ports[0].Protocol })
}

// clients reads who is let in, and whether any of them by IPv6.
func (w *Wish) clients(cfg *config.Global, spec *cloud.LoadBalancerSpec) {
	w.Clients, w.Clients6 = family.Ranges(spec.SourceRanges, false), family.Ranges(spec.SourceRanges, true)
	if len(spec.SourceRanges) == 0 {
		w.Clients, w.Clients6 = []netip.Prefix{family.Everyone(false)}, []netip.Prefix{family.Everyone(true)}
	}
	w.restricted = len(spec.SourceRanges) > 0 && family.Restrict(spec.SourceRanges)
	w.families(spec)
	switch {
	case len(spec.SourceRanges) == 0:
	case len(w.Clients) == 0 && !w.IPv6:
		w.problems = append(w.problems, field.Forbidden(family.RangesPath(spec),
			"there is no range of IPv4, by which alone the load balancer would be reached, so that nobody would be let in; add one"))
	default:
		w.warnf(!slices.Contains(spec.IPFamilies, corev1.IPv6Protocol) && len(w.Clients) < len(spec.SourceRanges), "%s: ranges of IPv6 have no effect", family.RangesPath(spec))
		w.warnf(cfg.DisableSGIngress && !w.Managed,
			"%s has no effect: by [Global] DisableSecurityGroupIngress of cloud.conf the security groups of Nodes are left alone", family.RangesPath(spec))
	}
}

// CheckAddresses is an error unless each of that many subnets has its address, where the annotations are set.
func (w *Wish) CheckAddresses(subnets int) error {
	for name, all := range map[string][]string{annotations.EIPAllocations: w.Allocations, annotations.PrivateAddresses: w.PrivateAddresses} {
		if all != nil && len(all) != subnets {
			return cloud.Errorf(cloud.KindInvalid, "annotation %s names %d, and the load balancer is to be in %d subnets; name one for each, or as many subnets in %s",
				name, len(all), subnets, annotations.Subnets)
		}
	}
	return nil
}
