package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// Wish is what a Service makes of a network load balancer.
type Wish struct {
	Name     string
	Internal bool
	// Subnets are named by IDs or names; none are found by tags. Addresses have one item for each subnet,
	// or are nil for any.
	Subnets, Allocations, PrivateAddresses []string
	// Managed says that it has security groups: SecurityGroups, or where those are none its own.
	Managed        bool
	SecurityGroups []string
	// Tags are those of all that is made; GroupTags those of its own security group beside the cluster's.
	Tags, GroupTags map[string]string
	Listeners       []Listener
	// Attributes and those of each target group are enforced; others stay as they are.
	Attributes map[string]string
	// IPv6 says that the load balancer shall be reached by IPv6, too, where it can be. DualStack says that it can, once Settle knows;
	// IPv6Only says that Nodes serve the Service by IPv6 alone.
	IPv6, DualStack, IPv6Only bool
	// Clients and Clients6 are let in, of IPv4 and where it is DualStack of IPv6. Everyone is 0.0.0.0/0, or ::/0.
	Clients, Clients6 []netip.Prefix

	restricted bool // not everyone is let in
	problems   field.ErrorList
	warnings   []string
}

// Refused is the error of all that is wrong with the wish, nil for nothing.
func (w *Wish) Refused() error {
	return cloud.Refuse(cloud.KindInvalid, "plan network load balancer "+w.Name, w.problems)
}

// Warnings are what of the wish is fulfilled in part only.
func (w *Wish) Warnings() []string { return w.warnings }

// FixedAtCreation says what of the wish a load balancer does not fulfill, and never will.
func (w *Wish) FixedAtCreation(seen *Balancer) (warnings []string) {
	if w.Internal != seen.Internal {
		warnings = append(warnings, annotations.InternalStays(seen.Internal))
	}
	isOther := func(id string) bool { return IsSubnetID(id) && !slices.Contains(seen.Subnets, id) }
	if other := slices.IndexFunc(w.Subnets, isOther); other >= 0 {
		warnings = append(warnings, SubnetsStay(seen, "it is not in "+w.Subnets[other]))
	}
	return warnings
}

// IsSubnetID reports whether a subnet is named by its ID, and not by its tag Name.
func IsSubnetID(name string) bool { return strings.HasPrefix(name, "subnet-") }

// SubnetsStay is what to say of a load balancer that is to be in other subnets than it is in.
func SubnetsStay(seen *Balancer, why string) string {
	return fmt.Sprintf("annotation %s counts when a load balancer is made: this one stays in %s, though %s; delete the Service and make it anew to have another one",
		annotations.Subnets, strings.Join(seen.Subnets, ", "), why)
}

// Check implements cloud.Provider.CheckLoadBalancer for network load balancers.
func Check(spec *cloud.LoadBalancerSpec, cfg *config.Global) (problems field.ErrorList, warnings []string) {
	w := Resolve(cfg, spec)
	return w.problems, w.warnings
}

// Resolve reads what a Service wants.
func Resolve(cfg *config.Global, spec *cloud.LoadBalancerSpec) *Wish {
	s := spec.Settings
	w := &Wish{
		Name: Name(spec.LoadBalancerRef), Internal: annotations.IsInternal(s),
		Subnets:          list(s, annotations.Subnets),
		Allocations:      list(s, annotations.EIPAllocations),
		PrivateAddresses: list(s, annotations.PrivateAddresses),
		Managed:          cfg.NLBSecurityGroupMode != "", GroupTags: annotations.UserTags(s),
		Tags: tagsOf(cfg, spec.LoadBalancerRef),
	}
	if w.Managed {
		w.SecurityGroups = list(s, annotations.SecurityGroups)
	}
	w.check(spec)
	w.clients(cfg, spec)
	check := w.healthCheck(cfg, spec)
	attributes := w.groupAttributes(spec)
	w.attributes(s)
	tls := annotations.EndsTLS(s)
	for _, p := range spec.Ports {
		if p.NodePort == 0 {
			continue // nobody serves it
		}
		l := Listener{Port: p.Port, Protocol: string(p.Protocol)}
		g := &TargetGroup{Port: p.NodePort, Protocol: string(p.Protocol), Check: check, Attributes: attributes}
		if arn := s.String(annotations.Certificate, ""); arn != "" && p.Protocol != corev1.ProtocolUDP && tls.Has(p.Port, p.Name) {
			l.Protocol, l.Certificate, l.Policy = TLS, arn, s.String(annotations.SSLPolicy, "")
			if s.String(annotations.BackendProtocol, "") == "ssl" {
				g.Protocol = TLS
			}
		}
		g.Name = targetGroupName(spec.LoadBalancerRef, p.Port, g)
		l.Wanted = g
		w.Listeners = append(w.Listeners, l)
	}
	return w
}

// tagsOf are those of all that is made for a Service but its security group.
func tagsOf(cfg *config.Global, ref cloud.LoadBalancerRef) map[string]string {
	more := annotations.UserTags(ref.Settings)
	more[annotations.ServiceTag] = ref.Namespace + "/" + ref.Name
	return tags.New(ref.Cluster.ID, cfg.KubernetesClusterTag != "", more)
}

// TagsHeldBy reports whether an object has the wish's tags. Values that others have changed stay: the existing manager sets none but
// with a new object.
func (w *Wish) TagsHeldBy(have map[string]string) bool {
	for key := range w.Tags {
		if _, there := have[key]; !there {
			return false
		}
	}
	return true
}

// MarkOf is what tags tell of an object's owner. Of the clusters it is shared by, this one counts.
func MarkOf(all map[string]string, ref cloud.LoadBalancerRef) cloud.Mark {
	return cloud.Mark{ClusterID: tags.ClusterIn(all, ref.Cluster.ID), Service: all[annotations.ServiceTag]}
}

// list are the items of an annotation, nil without it.
func list(s cloud.Settings, name string) []string {
	if !s.Has(name) {
		return nil
	}
	out := []string{}
	for item := range strings.SplitSeq(s.String(name, ""), ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// attributes are those of the load balancer that follow the Service.
func (w *Wish) attributes(s cloud.Settings) {
	logs := annotations.IsTrue(s, annotations.LogEnabled)
	w.Attributes = map[string]string{
		crossZone:  strconv.FormatBool(annotations.IsTrue(s, annotations.CrossZone)),
		logEnabled: strconv.FormatBool(logs),
	}
	if !logs {
		return // AWS takes no empty name of a bucket
	}
	w.Attributes[logBucket], w.Attributes[logPrefix] = s.String(annotations.LogBucket, ""), s.String(annotations.LogPrefix, "")
	if w.Attributes[logBucket] == "" {
		w.problems = append(w.problems, field.Required(cloud.AnnotationPath(annotations.LogBucket), "access logs need a bucket"))
	}
}

// groupAttributes are those of target groups that the Service states; nil for none.
func (w *Wish) groupAttributes(spec *cloud.LoadBalancerSpec) map[string]string {
	if !spec.Settings.Has(annotations.TargetGroupAttributes) {
		return nil
	}
	path := cloud.AnnotationPath(annotations.TargetGroupAttributes)
	all := annotations.Pairs(spec.Settings.String(annotations.TargetGroupAttributes, ""))
	for key, value := range all {
		switch {
		case key != preserveClientIP && key != proxyProtocol:
			w.problems = append(w.problems, field.NotSupported(path, key, []string{preserveClientIP, proxyProtocol}))
		case value != "true" && value != "false":
			w.problems = append(w.problems, field.Invalid(path, key+"="+value, "use true or false"))
		case key == preserveClientIP && value == "false" && hasUDP(spec):
			w.problems = append(w.problems, field.Invalid(path, key+"="+value, "UDP keeps the addresses of clients; remove it, or use TCP"))
		}
	}
	return all
}

func hasUDP(spec *cloud.LoadBalancerSpec) bool {
	for _, p := range spec.Ports {
		if p.Protocol == corev1.ProtocolUDP {
			return true
		}
	}
	return false
}

// healthCheck is that of all target groups.
func (w *Wish) healthCheck(cfg *config.Global, spec *cloud.LoadBalancerSpec) HealthCheck {
	s := spec.Settings
	c := HealthCheck{Protocol: protocolTCP, Port: annotations.TrafficPort, Path: "/", Interval: 30, Healthy: 3, Unhealthy: 3}
	if h := spec.HealthCheck; h != nil {
		c = HealthCheck{Protocol: "HTTP", Port: strconv.Itoa(int(h.Port)), Path: h.Path, Interval: 10, Healthy: 2, Unhealthy: 2}
	}
	c.Protocol = strings.ToUpper(s.String(annotations.CheckProtocol, c.Protocol))
	switch c.Protocol {
	case "HTTP", "HTTPS":
		c.Path = s.String(annotations.CheckPath, c.Path)
	case protocolTCP:
		c.Path = ""
	default:
		w.problems = append(w.problems, field.NotSupported(cloud.AnnotationPath(annotations.CheckProtocol),
			s.String(annotations.CheckProtocol, ""), []string{"TCP", "HTTP", "HTTPS"}))
	}
	c.Port = s.String(annotations.CheckPort, c.Port)
	if cfg.SharedProbe() && spec.HealthCheck == nil {
		for _, name := range []string{annotations.CheckProtocol, annotations.CheckPort, annotations.CheckPath} {
			w.warnf(s.Has(name), "annotation %s has no effect: by [Global] ClusterServiceLoadBalancerHealthProbeMode of cloud.conf all check port %d",
				name, cfg.SharedHealthProbePort)
		}
		c.Protocol, c.Port, c.Path = "HTTP", strconv.Itoa(cfg.SharedHealthProbePort), cfg.SharedHealthProbePath
	}
	w.warnf(!cfg.DisableSGIngress && opens(spec, c.Port), "annotation %s lets the subnets of the load balancer in to port %s of all Nodes, whatever serves it there",
		annotations.CheckPort, c.Port)
	number := func(name string, to *int32, least, most int32) {
		if !s.Has(name) {
			return
		}
		if *to = int32(s.Int(name, 0)); *to < least || *to > most { //nolint:gosec // of 32 bits, by the annotations' table
			w.problems = append(w.problems, field.Invalid(cloud.AnnotationPath(name), s.String(name, ""),
				fmt.Sprintf("use a number between %d and %d", least, most)))
		}
	}
	number(annotations.CheckInterval, &c.Interval, 5, 300)
	w.timeout(s, &c)
	number(annotations.CheckHealthy, &c.Healthy, 2, 10)
	number(annotations.CheckUnhealthy, &c.Unhealthy, 2, 10)
	return c
}

// kubeProxy is the port at which kube-proxy says how it is.
const kubeProxy = "10256"

// opens reports whether the Service has a port checked that is neither its own nor kube-proxy's.
func opens(spec *cloud.LoadBalancerSpec, port string) bool {
	if spec.Settings.String(annotations.CheckPort, "") != port || port == annotations.TrafficPort || port == kubeProxy {
		return false
	}
	if h := spec.HealthCheck; h != nil && port == strconv.Itoa(int(h.Port)) {
		return false
	}
	return !slices.ContainsFunc(spec.Ports, func(p cloud.LoadBalancerPort) bool { return port == strconv.Itoa(int(p.NodePort)) })
}

// timeout reads how long a check may take. The existing manager reads it and does nothing with it, so that a wrong one must not keep a
// Service from being served.
func (w *Wish) timeout(s cloud.Settings, c *HealthCheck) {
	n := int32(s.Int(annotations.CheckTimeout, 0)) //nolint:gosec // of 32 bits, by the annotations' table
	if n >= 2 && n <= min(120, c.Interval) {
		c.Timeout = n
		return
	}
	w.warnf(s.Has(annotations.CheckTimeout), "annotation %s has no effect: use a number between 2 and 120 that is not above the interval of %d seconds",
		annotations.CheckTimeout, c.Interval)
}

func (w *Wish) warnf(applies bool, format string, args ...any) {
	if applies {
		w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
	}
}
