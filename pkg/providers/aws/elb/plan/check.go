package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
)

// Check says what a classic load balancer cannot be, as cloud.Provider.CheckLoadBalancer does.
func Check(spec *cloud.LoadBalancerSpec) (problems field.ErrorList, warnings []string) {
	at, s := field.NewPath("spec"), spec.Settings
	served := false
	for i := range spec.Ports {
		p := &spec.Ports[i]
		served = served || p.NodePort != 0
		if !supported(p.Protocol) {
			where := at.Child("ports").Index(i).Child("protocol")
			problems = append(problems, field.NotSupported(where, p.Protocol, []corev1.Protocol{corev1.ProtocolTCP}))
		}
	}
	if !served {
		problems = append(problems, field.Required(at.Child("ports"), "a classic load balancer needs a port with a node port"))
	}
	if spec.SessionAffinityTimeout > 0 {
		problems = append(problems, field.Invalid(at.Child("sessionAffinity"), corev1.ServiceAffinityClientIP,
			"classic load balancers have none for TCP; use None"))
	}
	if spec.LoadBalancerIP.IsValid() {
		problems = append(problems, field.Invalid(at.Child("loadBalancerIP"), spec.LoadBalancerIP.String(),
			"AWS chooses the addresses of a classic load balancer; remove it"))
	}
	problems = append(problems, checkSettings(spec)...)
	if slices.Contains(spec.IPFamilies, corev1.IPv6Protocol) {
		warnings = append(warnings, "a classic load balancer of a Service is reached, and reaches Nodes, by IPv4 alone")
	}
	if r := spec.SourceRanges; len(r) > 0 && !slices.ContainsFunc(r, func(p netip.Prefix) bool { return p.Addr().Is4() }) {
		warnings = append(warnings, "nobody can reach a classic load balancer, which has IPv4 alone, as spec.loadBalancerSourceRanges lets in IPv6 only")
	}
	warnings = append(warnings, annotations.ReservedTags(s)...)
	for _, name := range []string{annotations.EIPAllocations, annotations.PrivateAddresses} {
		if s.Has(name) {
			warnings = append(warnings, "the annotation "+name+" has no effect on a classic load balancer")
		}
	}
	return problems, warnings
}

func checkSettings(spec *cloud.LoadBalancerSpec) (problems field.ErrorList) {
	s := spec.Settings
	problems = annotations.CheckClassic(s)
	refuse := func(name, why string) {
		problems = append(problems, field.Invalid(cloud.AnnotationPath(name), s.String(name, ""), why))
	}
	if s.Has(annotations.TargetGroupAttributes) {
		refuse(annotations.TargetGroupAttributes, "only network load balancers have target groups; remove it, or set "+annotations.Type+" to nlb")
	}
	backend, ends := s.String(annotations.BackendProtocol, ""), false
	for i := range spec.Ports {
		ends = ends || annotations.EndsTLS(s).Has(spec.Ports[i].Port, strings.ToLower(spec.Ports[i].Name))
	}
	if s.String(annotations.Certificate, "") != "" && ends && backend != "" && outside(backend) == "" {
		refuse(annotations.BackendProtocol, "with a certificate it is http, https, ssl or tcp")
	}
	checkLimits(s, refuse)
	slices.SortStableFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

// checkLimits refuses what AWS would refuse of numbers and health checks once the load balancer is made. Impossible numbers of what
// is switched off are not sent (possible).
func checkLimits(s cloud.Settings, refuse func(name, why string)) {
	for name, limits := range map[string][2]int{
		annotations.CheckInterval: {5, 300}, annotations.CheckTimeout: {2, 60}, annotations.CheckHealthy: {2, 10},
		annotations.CheckUnhealthy: {2, 10}, annotations.IdleTimeout: {1, 4000},
	} {
		if n := s.Int(name, limits[0]); n < limits[0] || n > limits[1] {
			refuse(name, fmt.Sprintf("of a classic load balancer it is between %d and %d", limits[0], limits[1]))
		}
	}
	if number(s, annotations.CheckTimeout, checkTimeout) >= number(s, annotations.CheckInterval, checkInterval) {
		refuse(annotations.CheckTimeout, fmt.Sprintf("it is less than the interval between two checks, of %d seconds", number(s, annotations.CheckInterval, checkInterval)))
	}
	if v := s.String(annotations.CheckProtocol, "TCP"); !slices.Contains([]string{"TCP", "SSL", "HTTP", "HTTPS"}, strings.ToUpper(v)) {
		refuse(annotations.CheckProtocol, "of a classic load balancer it is TCP, SSL, HTTP or HTTPS")
	}
	if annotations.IsTrue(s, annotations.DrainingEnabled) && !possible(annotations.DrainingTimeout, s.Int(annotations.DrainingTimeout, 300)) {
		refuse(annotations.DrainingTimeout, "of a classic load balancer it is between 1 and 3600")
	}
	logs := annotations.IsTrue(s, annotations.LogEnabled)
	if logs && !possible(annotations.LogInterval, s.Int(annotations.LogInterval, 60)) {
		refuse(annotations.LogInterval, "it is 5 or 60")
	}
	if logs && s.String(annotations.LogBucket, "") == "" {
		refuse(annotations.LogEnabled, "access logs need a bucket; set "+annotations.LogBucket)
	}
}
