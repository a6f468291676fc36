package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Here is what is refused, or only partly fulfilled, by the Service and cloud.conf alone, beside
// what contradicts itself (resolve). Ensure and the Service webhook have it from here both.

// mostText is as much of a value as a message repeats.
const mostText = 200

// MaxGroupRules bounds the rules that a Service's ports and source ranges make together: 1.5
// million, which one Service can ask for, took 30 s each time.
const MaxGroupRules = 10_000

// notes are texts, each of which is there where it applies.
type notes []string

func (n *notes) add(applies bool, format string, args ...any) {
	if applies {
		*n = append(*n, fmt.Sprintf(format, args...))
	}
}

// Check implements cloud.Provider.CheckLoadBalancer.
func Check(c *config.Config, spec *cloud.LoadBalancerSpec) (problems field.ErrorList, warnings []string) {
	svc := resolve(spec, c)
	problems = svc.problems
	if err := svc.CertificateProblem(); err != nil && svc.HasTCP() {
		problems = append(problems, err)
	}
	lacks, warnings := svc.lacks(c.LoadBalancer.Provider)
	if err := svc.SubnetPatternProblem(); err != nil && svc.hasFIP(false) {
		if svc.FloatingIP.Address.IsValid() || svc.VIP.PortID != "" {
			warnings = append(warnings, err.Error()+" (unless the floating IP is there already)")
		} else {
			lacks = append(lacks, err)
		}
	}
	warnings = slices.Concat(svc.warnings, svc.onlyFirst(svc.OneVIP()), warnings)
	if svc.LoadBalancerID == "" && len(svc.Published()) == 0 {
		return append(problems, lacks...), warnings
	}
	for _, l := range lacks { // it may be of another provider, with two VIPs or a floating IP
		warnings = append(warnings, l.Error()+" (unless the load balancer that there is can do it)")
	}
	return problems, warnings
}

// HasTCP reports whether a port is TCP's.
func (svc *Service) HasTCP() bool { return slices.ContainsFunc(svc.Spec.Ports, isTCP) }

func isTCP(p cloud.LoadBalancerPort) bool { return p.Protocol == corev1.ProtocolTCP }

// lacks is what a load balancer provider cannot do of the wishes: a problem where traffic
// would be let in or handled otherwise than the Service says, a warning where it would only
// miss a tuning.
func (svc *Service) lacks(provider string) (problems field.ErrorList, warnings notes) {
	s := svc.Spec.Settings
	warnings.add(svc.Spec.HealthCheck != nil && s.Has(AnnMonitor) && !s.Bool(AnnMonitor, true),
		"annotation %s: externalTrafficPolicy Local needs health monitors, so the pools have them", AnnMonitor)
	problems = svc.otherFamily(provider)
	switch method := s.String(AnnMethod, ""); {
	case provider == config.ProviderOVN:
		return append(problems, svc.lacksOfOVN()...), append(warnings, svc.warningsOfOVN()...)
	case config.IsAmphora(provider) && method == config.MethodSourceIPPort:
		warnings.add(true, "annotation %s: load balancer provider %s does not know %s and goes by %s; use %s, %s or %s", AnnMethod, provider, config.MethodSourceIPPort,
			config.MethodRoundRobin, config.MethodRoundRobin, config.MethodLeastConnections, config.MethodSourceIP)
	}
	return problems, warnings // others answer for themselves
}

// otherFamily refuses source ranges that are all of another family than the VIP's, which Octavia
// does not take: an empty list lets everyone in. Where ranges are ignored they are no problem.
func (svc *Service) otherFamily(provider string) field.ErrorList {
	if len(svc.sourceRanges) > 0 || len(svc.Spec.SourceRanges) == 0 || len(svc.ownRanges()) > 0 || svc.ignoresRanges(provider) {
		return nil
	}
	return field.ErrorList{field.Invalid(family.RangesPath(svc.Spec), text.Clip(fmt.Sprint(svc.Spec.SourceRanges), mostText),
		fmt.Sprintf("has no range of the load balancer's family %s, so that nobody would be let in; add one", svc.Spec.IPFamilies[0]))}
}

// ignoresRanges reports whether nothing restricts clients on load balancers of provider.
func (svc *Service) ignoresRanges(provider string) bool {
	return provider == config.ProviderOVN && !svc.Config.ManageSecurityGroups
}

func (svc *Service) lacksOfOVN() (problems field.ErrorList) {
	forbid := func(applies bool, path *field.Path, detail string) {
		if applies {
			problems = append(problems, field.Forbidden(path, detail))
		}
	}
	forbid(svc.TLSRef != "", cloud.AnnotationPath(AnnTLSContainerRef), "load balancer provider ovn cannot end TLS; remove it, or leave it empty where cloud.conf sets it")
	forbid(svc.forwardedFor, cloud.AnnotationPath(AnnForwardedFor), "load balancer provider ovn does not understand HTTP; remove it")
	forbid(svc.proxy != "", cloud.AnnotationPath(AnnProxyProtocol), "load balancer provider ovn does not speak the PROXY protocol; remove it")
	ports, ranges := len(svc.Spec.Ports), len(svc.Spec.SourceRanges)
	forbid(ports*ranges > MaxGroupRules && svc.Config.ManageSecurityGroups, family.RangesPath(svc.Spec),
		fmt.Sprintf("%d ports and %d ranges need %d rules of a security group, and at most %d are made: use fewer ranges", ports, ranges, ports*ranges, MaxGroupRules))
	if m := svc.foreignMethod(); m != "" && !svc.served() {
		problems = append(problems, field.Invalid(cloud.AnnotationPath(AnnMethod), m, "load balancer provider ovn knows "+config.MethodSourceIPPort+" only"))
	}
	return problems
}

// foreignMethod is an algorithm of the annotation that ovn has not.
func (svc *Service) foreignMethod() string {
	if m := svc.Spec.Settings.String(AnnMethod, ""); m != config.MethodSourceIPPort {
		return m
	}
	return ""
}

// served reports whether the Service had its load balancer before.
func (svc *Service) served() bool { return len(svc.Spec.CurrentIngress) > 0 }

func (svc *Service) warningsOfOVN() (warnings notes) {
	method, ranges, managed := svc.foreignMethod(), family.RangesPath(svc.Spec), svc.Config.ManageSecurityGroups
	warnings.add(method != "" && svc.served(), "annotation %s: %s has no effect: load balancer provider ovn knows %s only", AnnMethod, method, config.MethodSourceIPPort)
	warnings.add(len(svc.Spec.SourceRanges) > 0 && !managed,
		"%s has no effect, EVERYONE IS LET IN: load balancer provider ovn cannot restrict clients; use provider amphora or set [LoadBalancer] manage-security-groups", ranges)
	warnings.add(len(svc.sourceRanges) > 0 && managed,
		"%s: load balancer provider ovn cannot restrict clients; the security group of the nodes does, unless another group of theirs opens the node ports", ranges)
	warnings.add(svc.Spec.HealthCheck != nil,
		"load balancer provider ovn has no HTTP health monitors: with externalTrafficPolicy Local it finds the nodes that have endpoints by connecting to the node port")
	warnings.add(svc.Spec.SessionAffinityTimeout > 0,
		"spec.sessionAffinity ClientIP: load balancer provider ovn, up to OpenStack Zed at least, accepts it and does nothing: connections of one client go to several nodes")
	for _, name := range []string{AnnTimeoutClient, AnnTimeoutConnect, AnnTimeoutMember, AnnTimeoutInspect, AnnConnectionLimit, AnnFlavorID, AnnAvailabilityZone} {
		warnings.add(svc.Spec.Settings.Has(name), "annotation %s has no effect: load balancer provider ovn does not know it", name)
	}
	return warnings
}

// tcpOnly warns of annotations about TCP ports where there is none.
func (svc *Service) tcpOnly() {
	if svc.HasTCP() {
		return
	}
	s := svc.Spec.Settings
	for name, set := range map[string]bool{AnnProxyProtocol: svc.proxy != "", AnnForwardedFor: svc.forwardedFor, AnnTLSContainerRef: s.String(AnnTLSContainerRef, "") != ""} {
		svc.warnings.add(set, "annotation %s has no effect: the Service has no TCP port", name)
	}
	slices.Sort(svc.warnings)
}

// monitorTimes warns of checks that may take longer than the time between two of them.
func (svc *Service) monitorTimes() {
	m, ok := svc.Monitor()
	s := svc.Spec.Settings
	svc.warnings.add(ok && m.Timeout > m.Delay && (s.Has(AnnMonitorTimeout) || s.Has(AnnMonitorDelay)),
		"annotations %s and %s: a check of %d s is longer than the %d s between two; Octavia may refuse it", AnnMonitorTimeout, AnnMonitorDelay, m.Timeout, m.Delay)
}

// OneVIP is why a new load balancer of a Service of two families gets one VIP, whatever the
// cloud has; "" when the cloud decides.
func (svc *Service) OneVIP() string {
	switch {
	case !svc.TwoFamilies():
		return ""
	case family.Restrict(svc.Spec.SourceRanges):
		return restrictedReason
	case svc.VIP.PortID != "":
		return fmt.Sprintf("annotation %s names a port, which is the only VIP", AnnPortID)
	}
	return ""
}

// CertificateProblem is what is wrong with the reference of the certificate, nil when it can
// be looked up, or when there is none or its store is not ours to ask.
func (svc *Service) CertificateProblem() *field.Error {
	if svc.TLSRef == "" || svc.Config.ContainerStore != config.StoreBarbican {
		return nil
	}
	if kind, _ := BarbicanRef(svc.TLSRef); kind != "" {
		return nil
	}
	detail := "use the reference of a Barbican container or secret, such as https://barbican.example.org/v1/containers/<UUID>; for another store set [LoadBalancer] container-store = external"
	if !svc.Spec.Settings.Has(AnnTLSContainerRef) {
		detail = "this is [LoadBalancer] default-tls-container-ref of cloud.conf: " + detail
	}
	return field.Invalid(cloud.AnnotationPath(AnnTLSContainerRef), text.Clip(svc.TLSRef, mostText), detail)
}

// SubnetPatternProblem is what is wrong with the name pattern of the floating IP's subnet, nil
// when it can be matched or an ID goes before it.
func (svc *Service) SubnetPatternProblem() *field.Error {
	if svc.FloatingIP.SubnetID != "" {
		return nil
	}
	if _, err := config.SubnetMatcher(svc.FloatingIP.SubnetName); err != nil {
		return field.Invalid(cloud.AnnotationPath(AnnFloatingSubnet), text.Clip(svc.FloatingIP.SubnetName, mostText), err.Error()+"; use a glob, or a regular expression after ~")
	}
	return nil
}

// BarbicanRef reads a reference: its kind is containers or secrets, "" for neither.
func BarbicanRef(ref string) (kind, id string) {
	parts := strings.Split(strings.TrimSuffix(ref, "/"), "/")
	if n := len(parts); n > 1 && text.IsUUID(parts[n-1]) && (parts[n-2] == "containers" || parts[n-2] == "secrets") {
		return parts[n-2], parts[n-1]
	}
	return "", ""
}
