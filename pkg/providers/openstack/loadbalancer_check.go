package openstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Here is what is refused, or only partly fulfilled, by the Service and cloud.conf alone, beside
// what contradicts itself (readWishes). Ensure and the Service webhook have it from here both.

// checkLoadBalancer implements cloud.Provider.CheckLoadBalancer.
func checkLoadBalancer(c *config.Config, spec *cloud.LoadBalancerSpec) (problems field.ErrorList, warnings []string) {
	w := readWishes(spec, c)
	problems = w.problems
	if err := w.certificateProblem(); err != nil && slices.ContainsFunc(spec.Ports, isTCP) {
		problems = append(problems, err)
	}
	lacks, warnings := w.lacks(c.LoadBalancer.Provider)
	if err := w.patternProblem(); err != nil {
		if w.fip.address.IsValid() || w.vip.portID != "" {
			warnings = append(warnings, err.Error()+" (unless the floating IP is there already)")
		} else {
			lacks = append(lacks, err)
		}
	}
	if reason := w.oneVIP(); reason != "" {
		w.onlyFirst("%s", reason)
	}
	warnings = slices.Concat(w.warnings, warnings)
	if w.loadBalancerID == "" && len(publishedAddresses(w)) == 0 {
		return append(problems, lacks...), warnings
	}
	for _, l := range lacks { // it may be of another provider, with two VIPs or a floating IP
		warnings = append(warnings, l.Error()+" (unless the load balancer that there is can do it)")
	}
	return problems, warnings
}

func isTCP(p cloud.LoadBalancerPort) bool { return p.Protocol == corev1.ProtocolTCP }

// lacks is what a load balancer provider cannot do of the wishes: a problem where traffic
// would be let in or handled otherwise than the Service says, a warning where it would only
// miss a tuning.
func (w *lbWishes) lacks(provider string) (problems field.ErrorList, warnings []string) {
	s := w.spec.Settings
	if w.spec.HealthCheck != nil && s.Has(annMonitor) && !s.Bool(annMonitor, true) {
		warnings = append(warnings, fmt.Sprintf("annotation %s: externalTrafficPolicy Local needs health monitors, so the pools have them", annMonitor))
	}
	problems = w.otherFamily(provider)
	switch method := s.String(annMethod, ""); {
	case provider == config.ProviderOVN:
		return append(problems, w.lacksOfOVN()...), append(warnings, w.warningsOfOVN()...)
	case config.IsAmphora(provider) && method == config.MethodSourceIPPort:
		warnings = append(warnings, fmt.Sprintf("annotation %s: load balancer provider %s does not know %s and goes by %s; use %s, %s or %s", annMethod, provider, config.MethodSourceIPPort,
			config.MethodRoundRobin, config.MethodRoundRobin, config.MethodLeastConnections, config.MethodSourceIP))
	}
	return problems, warnings // others answer for themselves
}

// otherFamily refuses source ranges that are all of another family than the VIP's, which Octavia
// does not take: an empty list lets everyone in. Where ranges are ignored they are no problem.
func (w *lbWishes) otherFamily(provider string) field.ErrorList {
	if len(w.sourceRanges) > 0 || len(w.spec.SourceRanges) == 0 || w.hasOwnRange() || w.ignoresRanges(provider) {
		return nil
	}
	return field.ErrorList{field.Invalid(w.sourceRangesPath(), limitedText(fmt.Sprint(w.spec.SourceRanges)),
		fmt.Sprintf("has no range of the load balancer's family %s, so that nobody would be let in; add one", w.spec.IPFamilies[0]))}
}

// hasOwnRange reports whether a source range is of the VIP's family.
func (w *lbWishes) hasOwnRange() bool {
	return slices.ContainsFunc(w.spec.SourceRanges, func(p netip.Prefix) bool { return p.Addr().Is6() == w.isIPv6() })
}

// ignoresRanges reports whether nothing restricts clients on load balancers of provider.
func (w *lbWishes) ignoresRanges(provider string) bool {
	return provider == config.ProviderOVN && !w.cfg.ManageSecurityGroups
}

func (w *lbWishes) lacksOfOVN() (problems field.ErrorList) {
	forbid := func(path *field.Path, detail string) { problems = append(problems, field.Forbidden(path, detail)) }
	if w.tlsRef != "" {
		forbid(cloud.AnnotationPath(annTLSContainerRef), "load balancer provider ovn cannot end TLS; remove it, or leave it empty where cloud.conf sets it")
	}
	if w.forwardedFor {
		forbid(cloud.AnnotationPath(annForwardedFor), "load balancer provider ovn does not understand HTTP; remove it")
	}
	if w.proxy != "" {
		forbid(cloud.AnnotationPath(annProxyProtocol), "load balancer provider ovn does not speak the PROXY protocol; remove it")
	}
	if n := len(w.spec.Ports) * len(w.spec.SourceRanges); n > maxGroupRules && w.cfg.ManageSecurityGroups {
		problems = append(problems, field.Forbidden(w.sourceRangesPath(), fmt.Sprintf("%d ports and %d ranges need %d rules of a security group, and at most %d are made: use fewer ranges",
			len(w.spec.Ports), len(w.spec.SourceRanges), n, maxGroupRules)))
	}
	if m := w.foreignMethod(); m != "" && !w.served() {
		problems = append(problems, field.Invalid(cloud.AnnotationPath(annMethod), m, "load balancer provider ovn knows "+config.MethodSourceIPPort+" only"))
	}
	return problems
}

// foreignMethod is an algorithm of the annotation that ovn has not.
func (w *lbWishes) foreignMethod() string {
	if m := w.spec.Settings.String(annMethod, ""); m != config.MethodSourceIPPort {
		return m
	}
	return ""
}

// served reports whether the Service had its load balancer before.
func (w *lbWishes) served() bool { return len(w.spec.CurrentIngress) > 0 }

func (w *lbWishes) warningsOfOVN() (warnings []string) {
	if m := w.foreignMethod(); m != "" && w.served() {
		warnings = append(warnings, fmt.Sprintf("annotation %s: %s has no effect: load balancer provider ovn knows %s only", annMethod, m, config.MethodSourceIPPort))
	}
	if len(w.spec.SourceRanges) > 0 && !w.cfg.ManageSecurityGroups {
		warnings = append(warnings, fmt.Sprintf("%s has no effect, EVERYONE IS LET IN: load balancer provider ovn cannot restrict clients; use provider amphora or set [LoadBalancer] manage-security-groups", w.sourceRangesPath()))
	}
	if len(w.sourceRanges) > 0 && w.cfg.ManageSecurityGroups {
		warnings = append(warnings, fmt.Sprintf("%s: load balancer provider ovn cannot restrict clients; the security group of the nodes does, unless another group of theirs opens the node ports", w.sourceRangesPath()))
	}
	if w.spec.HealthCheck != nil {
		warnings = append(warnings, "load balancer provider ovn has no HTTP health monitors: with externalTrafficPolicy Local it finds the nodes that have endpoints by connecting to the node port")
	}
	if w.spec.SessionAffinityTimeout > 0 {
		warnings = append(warnings, "spec.sessionAffinity ClientIP: load balancer provider ovn, up to OpenStack Zed at least, accepts it and does nothing: connections of one client go to several nodes")
	}
	for _, name := range []string{annTimeoutClient, annTimeoutConnect, annTimeoutMember, annTimeoutInspect, annConnectionLimit, annFlavorID, annAvailabilityZone} {
		if w.spec.Settings.Has(name) {
			warnings = append(warnings, fmt.Sprintf("annotation %s has no effect: load balancer provider ovn does not know it", name))
		}
	}
	return warnings
}

// tcpOnly warns of annotations about TCP ports where there is none.
func (w *lbWishes) tcpOnly() {
	if slices.ContainsFunc(w.spec.Ports, isTCP) {
		return
	}
	s := w.spec.Settings
	for name, set := range map[string]bool{annProxyProtocol: w.proxy != "", annForwardedFor: w.forwardedFor, annTLSContainerRef: s.String(annTLSContainerRef, "") != ""} {
		if set {
			w.warnf("annotation %s has no effect: the Service has no TCP port", name)
		}
	}
	slices.Sort(w.warnings)
}

// monitorTimes warns of checks that may take longer than the time between two of them.
func (w *lbWishes) monitorTimes() {
	m, ok := w.monitor()
	s := w.spec.Settings
	if ok && m.Timeout > m.Delay && (s.Has(annMonitorTimeout) || s.Has(annMonitorDelay)) {
		w.warnf("annotations %s and %s: a check of %d s is longer than the %d s between two; Octavia may refuse it", annMonitorTimeout, annMonitorDelay, m.Timeout, m.Delay)
	}
}

// sourceRangesPath is where the source ranges stand: the annotation, unless they are not those
// that it names.
func (w *lbWishes) sourceRangesPath() *field.Path {
	named := map[netip.Prefix]bool{}
	for item := range strings.SplitSeq(w.spec.Settings.String(annSourceRanges, ""), ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(item)); err == nil {
			named[p.Masked()] = true
		}
	}
	for _, p := range w.spec.SourceRanges {
		if !named[p] {
			return field.NewPath("spec", "loadBalancerSourceRanges")
		}
	}
	return cloud.AnnotationPath(annSourceRanges)
}

// oneVIP is why a new load balancer of a Service of two families gets one VIP, whatever the
// cloud has; "" when the cloud decides.
func (w *lbWishes) oneVIP() string {
	switch {
	case !w.twoFamilies():
		return ""
	case w.restricted():
		return restrictedReason
	case w.vip.portID != "":
		return fmt.Sprintf("annotation %s names a port, which is the only VIP", annPortID)
	}
	return ""
}

// certificateProblem is what is wrong with the reference of the certificate, nil when it can
// be looked up, or when there is none or its store is not ours to ask.
func (w *lbWishes) certificateProblem() *field.Error {
	if w.tlsRef == "" || w.cfg.ContainerStore != config.StoreBarbican {
		return nil
	}
	if kind, _ := barbicanRef(w.tlsRef); kind != "" {
		return nil
	}
	detail := "use the reference of a Barbican container or secret, such as https://barbican.example.org/v1/containers/<UUID>; for another store set [LoadBalancer] container-store = external"
	if !w.spec.Settings.Has(annTLSContainerRef) {
		detail = "this is [LoadBalancer] default-tls-container-ref of cloud.conf: " + detail
	}
	return field.Invalid(cloud.AnnotationPath(annTLSContainerRef), limitedText(w.tlsRef), detail)
}

// patternProblem is what is wrong with the name pattern of the floating IP's subnet, nil
// when it can be matched or is not used.
func (w *lbWishes) patternProblem() *field.Error {
	if !w.hasFIP() || w.fip.subnetID != "" {
		return nil
	}
	if _, err := config.SubnetMatcher(w.fip.subnetName); err != nil {
		return field.Invalid(cloud.AnnotationPath(annFloatingSubnet), limitedText(w.fip.subnetName), err.Error()+"; use a glob, or a regular expression after ~")
	}
	return nil
}

// limitedText is as much of a value as a message repeats.
func limitedText(s string) string {
	const most = 200
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
