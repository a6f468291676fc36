package lb

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Classes say which Services of type LoadBalancer one controller serves, so that several
// can live side by side in a cluster.
type Classes struct {
	// Default tells that Services without a class are served, too.
	Default bool

	traits *cloud.LoadBalancerTraits
}

// NewClasses returns the classes of a provider with these traits.
func NewClasses(traits *cloud.LoadBalancerTraits, serveDefault bool) Classes {
	return Classes{Default: serveDefault, traits: traits}
}

// Of says whether a Service is served and, if so, by which LoadBalancerSpec.Class, which is empty
// for the provider's own class and for no class.
func (c Classes) Of(service *corev1.Service) (name string, served bool) {
	if class := service.Spec.LoadBalancerClass; class != nil {
		return c.Find(*class)
	}
	return "", c.Default && c.Elsewhere(service) == ""
}

// Elsewhere names who else serves a Service by its annotations; "" is nobody. They count of Services without a class.
func (c Classes) Elsewhere(service *corev1.Service) string {
	if c.traits.Elsewhere == nil || service.Spec.LoadBalancerClass != nil {
		return ""
	}
	return c.traits.Elsewhere(service)
}

// Find is Of for a value of spec.loadBalancerClass.
func (c Classes) Find(class string) (name string, served bool) {
	name, served = c.traits.Classes[class]
	return name, served
}

// Misspelled reports whether the class begins as the provider's do but is none of them, so
// that nobody serves it.
func (c Classes) Misspelled(class string) bool {
	if _, served := c.Find(class); served {
		return false
	}
	return slices.ContainsFunc(c.Own(), func(own string) bool { return strings.HasPrefix(class, own+"-") })
}

// Own are the provider's own classes, those without a LoadBalancerSpec.Class. Others are one of them
// with "-" and a name, or whole values of their own.
func (c Classes) Own() []string {
	return slices.DeleteFunc(c.All(), func(class string) bool { return c.traits.Classes[class] != "" })
}

// All returns the classes that are served, as spec.loadBalancerClass has them.
func (c Classes) All() []string { return slices.Sorted(maps.Keys(c.traits.Classes)) }

const (
	// healthCheckPath is what kube-proxy answers on a Service's healthCheckNodePort.
	healthCheckPath = "/healthz"
	// maxPorts is how many ports a Service may have: no cloud has load balancers of so many.
	maxPorts = 1000
	// maxProblems is how many are noted of one Service.
	maxProblems = 500
	// defaultAffinityTimeout is the API's default of sessionAffinityConfig.
	defaultAffinityTimeout = 3 * time.Hour
)

// Plan returns all that the load balancer of service shall be. nodes are the candidates for
// members; those that an annotation of type TypeSelector does not select are left out, and
// those that cannot be reached with a warning.
//
// warnings are for the user and stop nothing. The error joins every problem there is, each
// naming the field or annotation, its value and what is allowed; it is of KindInvalid. Then the
// plan is Frozen: it has the members all the same, unless the selector of Nodes is what is wrong.
// service is neither changed nor kept; the members are shared with other plans of nodes.
func Plan(service *corev1.Service, nodes *Nodes, cluster cloud.Cluster, provider *cloud.Provider) (*cloud.LoadBalancerSpec, []string, error) {
	p := &planner{service: service}
	spec := p.draft(nodes, cluster, provider)
	p.excuse(spec, provider.Annotations)
	if err := cloud.Refuse(cloud.KindInvalid, "plan load balancer of Service "+service.Namespace+"/"+service.Name, p.problems); err != nil {
		spec.Frozen = true
		return spec, p.warnings, err
	}
	return spec, p.warnings, nil
}

// Review names all that is wrong with a Service by itself, whatever the Nodes and the cloud's
// state are: what Plan refuses, a host name that it leaves out and, with the class that the
// Service's spec.loadBalancerClass picks, what the provider refuses. warnings are for the user, too. service is neither changed nor kept.
// It takes Services that no API server has validated: annotations of more than it allows are all that is said then.
func Review(service *corev1.Service, class string, provider *cloud.Provider) (problems field.ErrorList, warnings []string) {
	if validation.ValidateAnnotationsSize(service.Annotations) != nil {
		return field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", validation.TotalAnnotationSizeLimitB)}, nil
	}
	p := &planner{service: service}
	spec := p.draft(nil, cloud.Cluster{}, provider)
	if provider.CheckLoadBalancer == nil || len(spec.Ports) == 0 {
		return p.problems, p.warnings
	}
	spec.Class = class
	more, advice := provider.CheckLoadBalancer(spec)
	return append(p.problems, more...), append(p.warnings, advice...)
}

// hint is what service says of its load balancer, for deletion: without Members, and without what is
// not valid, as a Service that could never be served must still be deletable.
func hint(service *corev1.Service, class string, cluster cloud.Cluster, provider *cloud.Provider) *cloud.LoadBalancerSpec {
	spec := (&planner{service: service}).draft(nil, cluster, provider)
	spec.Class = class
	return spec
}

func ref(service *corev1.Service, cluster cloud.Cluster, settings cloud.Settings) cloud.LoadBalancerRef {
	return cloud.LoadBalancerRef{
		Cluster:   cluster,
		Namespace: service.Namespace,
		Name:      service.Name,
		UID:       string(service.UID),
		Settings:  settings,

		CurrentIngress: slices.Clone(service.Status.LoadBalancer.Ingress),
	}
}

// planner reads one Service and collects what is wrong with it.
type planner struct {
	service  *corev1.Service
	problems field.ErrorList
	warnings []string
}

// specPath is where all fields are that a plan is made of.
var specPath = field.NewPath("spec")

// refuse notes a problem, up to some number.
func (p *planner) refuse(problem *field.Error) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, problem)
	}
}

func (p *planner) warnf(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// excuse makes warnings of what must not stop a load balancer that serves: wrong host names, since
// a load balancer serves its clients without one, and for a Service that was served before what its
// load balancer needs not follow. A wrong value of that kind stays in the settings, so that nothing
// is made otherwise than the Service says.
func (p *planner) excuse(spec *cloud.LoadBalancerSpec, vocabulary []cloud.Annotation) {
	served := len(p.service.Status.LoadBalancer.Ingress) > 0
	excused := func(path *field.Path, why string) {
		p.problems = slices.DeleteFunc(p.problems, func(problem *field.Error) bool {
			wrong := problem.Field == path.String()
			if wrong {
				p.warnf("%s; %s", problem.Error(), why)
			}
			return wrong
		})
	}
	for i := range vocabulary {
		a := &vocabulary[i]
		for _, name := range names(a, p.service.Annotations) {
			switch {
			case a.Type == cloud.TypeHostname:
				excused(cloud.AnnotationPath(name), "until then, the address is published in its place")
			case a.RefuseNew && served:
				before := len(p.problems)
				if excused(cloud.AnnotationPath(name), asItIs); len(p.problems) < before {
					key := a.Name
					if strings.Contains(key, portPlace) {
						key = name
					}
					spec.Settings[key] = strings.TrimSpace(p.service.Annotations[name])
				}
			}
		}
	}
	if served {
		excused(specPath.Child("loadBalancerIP"), asItIs)
	}
}

const asItIs = "the load balancer stays as it is in this"

// draft is the plan without what is wrong, which p notes.
func (p *planner) draft(nodes *Nodes, cluster cloud.Cluster, provider *cloud.Provider) *cloud.LoadBalancerSpec {
	service, vocabulary := p.service, provider.Annotations
	settings, problems, warnings := Check(service.Annotations, vocabulary)
	p.problems, p.warnings = problems, warnings

	spec := &cloud.LoadBalancerSpec{LoadBalancerRef: ref(service, cluster, settings)}
	spec.Ports = p.ports(provider.LoadBalancing.NodePorts)
	selector, err := Selector(service, vocabulary)
	if err == nil {
		spec.Members = p.members(nodes, selector)
	}
	if nodes != nil {
		spec.Candidates = nodes.members
	}
	p.selector(err)
	spec.IPFamilies = ipFamilies(service)
	spec.LoadBalancerIP = p.loadBalancerIP()
	spec.SourceRanges = p.sourceRanges(spec.IPFamilies, vocabulary)
	spec.SessionAffinityTimeout = p.sessionAffinity()
	spec.HealthCheck = p.healthCheck()
	return spec
}

// selector refuses a selector that is wrong, unless Check has done so.
func (p *planner) selector(err error) {
	var wrong *field.Error
	if errors.As(err, &wrong) && !slices.ContainsFunc(p.problems, func(problem *field.Error) bool { return problem.Field == wrong.Field }) {
		p.refuse(wrong)
	}
}

// members are what the selector selects; Nodes that cannot be members are warned of.
func (p *planner) members(nodes *Nodes, selector labels.Selector) []cloud.LoadBalancerMember {
	s := nodes.Select(selector)
	if len(s.unreachable) > 0 {
		lacks := map[cloud.Reach]string{cloud.ByInternalIP: "an InternalIP", cloud.ByAnyIP: "an InternalIP or ExternalIP", cloud.ByInstance: "a provider ID"}
		p.warnf("nodes without %s get no traffic: %s", lacks[nodes.reach], shortList(s.unreachable))
	}
	if !s.matched {
		p.warnf("the node selector %q matches none of %d nodes: the load balancer has no members", selector, len(nodes.candidates))
	}
	return s.Members
}

func (p *planner) ports(needNodePorts bool) []cloud.LoadBalancerPort {
	path := specPath.Child("ports")
	if len(p.service.Spec.Ports) == 0 {
		p.refuse(field.Required(path, "a load balancer needs at least one port"))
	}
	ports := p.service.Spec.Ports
	if len(ports) > maxPorts {
		p.refuse(field.TooMany(path, len(ports), maxPorts))
		ports = ports[:maxPorts]
	}
	var out []cloud.LoadBalancerPort
	for i, sp := range ports {
		port := cloud.LoadBalancerPort{Name: sp.Name, Protocol: sp.Protocol, Port: sp.Port, NodePort: sp.NodePort}
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
		if !slices.Contains(protocols, port.Protocol) {
			p.refuse(field.NotSupported(path.Index(i).Child("protocol"), port.Protocol, protocols))
		}
		if port.Port < 1 || port.Port > 65535 {
			p.refuse(field.Invalid(path.Index(i).Child("port"), port.Port, "use a number between 1 and 65535"))
		}
		if port.NodePort == 0 && needNodePorts {
			p.warnf("%s: load balancers send traffic to node ports, and there is none, so that nobody serves the port; remove spec.allocateLoadBalancerNodePorts: false",
				path.Index(i).Child("nodePort"))
		}
		out = append(out, port)
	}
	return out
}

func (p *planner) loadBalancerIP() netip.Addr {
	s := strings.TrimSpace(p.service.Spec.LoadBalancerIP)
	if s == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		p.refuse(field.Invalid(specPath.Child("loadBalancerIP"), shown(s), "use an IP address"))
		return netip.Addr{}
	}
	return addr.Unmap()
}

// sourceRanges reads the field or, when it is empty, the annotation. Ranges that let in
// everyone of all of the Service's families are the same as none.
func (p *planner) sourceRanges(families []corev1.IPFamily, vocabulary []cloud.Annotation) []netip.Prefix {
	path, items := specPath.Child("loadBalancerSourceRanges"), p.service.Spec.LoadBalancerSourceRanges
	reported := false
	if len(items) == 0 {
		const key = corev1.AnnotationLoadBalancerSourceRangesKey
		path, items = cloud.AnnotationPath(key), splitRanges(p.service.Annotations[key])
		reported = slices.ContainsFunc(vocabulary, func(a cloud.Annotation) bool { return a.Name == key })
	}
	var out []netip.Prefix
	for i, item := range items {
		prefix, ok := parseRange(strings.TrimSpace(item))
		if !ok {
			if !reported { // Check has done it for a vocabulary that holds the annotation
				at := path
				if len(p.service.Spec.LoadBalancerSourceRanges) > 0 {
					at = path.Index(i)
				}
				p.refuse(field.Invalid(at, shown(item), "use a CIDR such as 192.0.2.0/24"))
			}
			continue
		}
		out = append(out, prefix)
	}
	slices.SortFunc(out, comparePrefixes)
	out = slices.Compact(out)
	everyone := map[bool]bool{} // by whether it is of IPv4
	for _, x := range out {
		everyone[x.Addr().Is4()] = everyone[x.Addr().Is4()] || x.Bits() == 0
	}
	for _, f := range families {
		if !everyone[f == corev1.IPv4Protocol] {
			return out
		}
	}
	return nil
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

func (p *planner) sessionAffinity() time.Duration {
	switch a := p.service.Spec.SessionAffinity; a {
	case corev1.ServiceAffinityClientIP:
	case corev1.ServiceAffinityNone, "":
		return 0
	default:
		p.refuse(field.NotSupported(specPath.Child("sessionAffinity"), a, []corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP}))
		return 0
	}
	c := p.service.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil || *c.ClientIP.TimeoutSeconds <= 0 {
		return defaultAffinityTimeout
	}
	return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
}

func (p *planner) healthCheck() *cloud.HealthCheck {
	if p.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	port := p.service.Spec.HealthCheckNodePort
	if port < 1 || port > 65535 {
		p.warnf("spec.healthCheckNodePort is not set: externalTrafficPolicy Local needs it to find the nodes with local endpoints, so that some connections may fail")
		return nil
	}
	return &cloud.HealthCheck{Port: port, Path: healthCheckPath}
}

// ipFamilies are the Service's; of one from before dual-stack, those of its cluster IPs.
func ipFamilies(service *corev1.Service) []corev1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return slices.Clone(service.Spec.IPFamilies)
	}
	ips := service.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{service.Spec.ClusterIP}
	}
	var out []corev1.IPFamily
	for _, ip := range ips {
		family := corev1.IPv4Protocol
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Unmap().Is6() {
			family = corev1.IPv6Protocol
		}
		if !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}

// shortList joins at most ten items and says whether there are more.
func shortList(items []string) string {
	const most = 10
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return strings.Join(items[:most], ", ") + ", …"
}
