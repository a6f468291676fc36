package cloud

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// LoadBalancers realizes Services of type LoadBalancer.
type LoadBalancers interface {
	// Ensure makes the cloud match spec, creating, changing and deleting only what is ours,
	// and returns the status to publish. It may wait briefly; while the cloud still works
	// on it, it returns KindRetryAfter and is called again. A status may come with that, which
	// is published at once: what is to be found again by its ID, and addresses that serve already.
	// Without Ingress the Service keeps the addresses that it shows.
	Ensure(ctx context.Context, spec *LoadBalancerSpec) (*LoadBalancerStatus, error)
	// UpdateMembers makes the members match spec.Members, for a load balancer that Ensure
	// has completed before with a spec that otherwise was the same. A spec that is Frozen may be
	// any: every pool of ours gets its Members at the port that the pool has, and nothing else
	// changes. Without Members those of a pool go that are no Candidates any more, but never all.
	// KindNotFound when there is no load balancer.
	UpdateMembers(ctx context.Context, spec *LoadBalancerSpec) error
	// Delete removes all that Ensure made for the Service, also what is left when the load balancer
	// itself is gone already. Nil when nothing is left. spec is what the Service says by now, as
	// far as it is valid, without Members: a hint that may be wrong. What goes is what marks in the
	// cloud say; Settings also say what to keep.
	Delete(ctx context.Context, spec *LoadBalancerSpec) error
}

// Waiting is implemented by LoadBalancers that finish work in the background: after a
// KindRetryAfter they tell when it is worth to come back. Decorators pass it on.
type Waiting interface {
	// Attach has again called for a Service as soon as the work that it waits for has ended,
	// until ctx ends, which is a term of leadership. It is called before any other method.
	Attach(ctx context.Context, again func(LoadBalancerRef))
}

// LoadBalancerRef names a Service's load balancer.
type LoadBalancerRef struct {
	// Cluster owns it.
	Cluster Cluster
	// Namespace and Name are the Service's.
	Namespace, Name string
	// UID is the Service's.
	UID string
	// Settings are the Service's annotations of the provider's vocabulary, checked.
	Settings Settings
	// CurrentIngress is the Service's status as it stands: addresses there are kept where
	// possible, and tell what was made for the Service.
	CurrentIngress []corev1.LoadBalancerIngress
}

// IngressIPs are the addresses of CurrentIngress, without host names.
func (r LoadBalancerRef) IngressIPs() []string {
	var out []string
	for _, in := range r.CurrentIngress {
		if in.IP != "" {
			out = append(out, in.IP)
		}
	}
	return out
}

// LoadBalancerKey tells the Services of all clusters apart. One that was made anew is another one.
type LoadBalancerKey struct{ cluster, namespace, name, uid string }

// Key is the Service's, for maps of what is remembered of it.
func (r LoadBalancerRef) Key() LoadBalancerKey {
	return LoadBalancerKey{r.Cluster.UID, r.Namespace, r.Name, r.UID}
}

// LoadBalancerSpec is all that a load balancer shall be: the plan that pkg/lb makes of a
// Service and the Nodes. Implementations must not change it.
type LoadBalancerSpec struct {
	LoadBalancerRef
	// Class is that of LoadBalancerTraits.Classes which spec.loadBalancerClass picks; empty
	// for the provider's own class and for Services without one.
	Class string
	// Verify asks Ensure to read everything afresh from the cloud instead of trusting what
	// is remembered, so that what others have changed is put right; LoadBalancerStatus.Repaired
	// tells of it.
	Verify bool
	// Frozen says that the wish is not valid as a whole, so that what there is stays: only
	// UpdateMembers takes such a spec. What is not valid is left out of it, also of Ports.
	Frozen bool
	// Ports are the Service's, in its order; never empty.
	Ports []LoadBalancerPort
	// Members are the Nodes that receive traffic, sorted by name; may be empty.
	Members []LoadBalancerMember
	// Candidates are the Nodes that Members were selected of, sorted by name and shared: where
	// none is selected they still tell in which networks the cluster is.
	Candidates []LoadBalancerMember
	// IPFamilies are the Service's, primary first; never empty.
	IPFamilies []corev1.IPFamily
	// LoadBalancerIP is spec.loadBalancerIP; invalid (zero) when unset.
	LoadBalancerIP netip.Addr
	// SourceRanges are the clients let in, sorted; empty means everyone.
	SourceRanges []netip.Prefix
	// SessionAffinityTimeout is positive for session affinity ClientIP, zero for none.
	SessionAffinityTimeout time.Duration
	// HealthCheck is the HTTP check that externalTrafficPolicy Local requires on every
	// member; nil for policy Cluster, where the provider's defaults decide.
	HealthCheck *HealthCheck
}

// LoadBalancerPort is one port of a Service.
type LoadBalancerPort struct {
	// Name is the Service port's name; may be empty when there is only one.
	Name string
	// Protocol is TCP, UDP or SCTP.
	Protocol corev1.Protocol
	// Port is where clients connect, NodePort where members listen; 0 when the Service has none,
	// so that no member can serve the port.
	Port, NodePort int32
}

// LoadBalancerMember is one Node behind a load balancer.
type LoadBalancerMember struct {
	// Node names the instance.
	Node InstanceRef
	// Addresses are the Node's InternalIPs, in the Node's order, then with ByAnyIP its ExternalIPs of
	// an IP family of which it has no InternalIP; empty only with ByInstance.
	Addresses []netip.Addr
}

// Targets are the addresses of Members, of the Service's IP families and with nodePort, for a pool that has those of have:
// without Members a Frozen spec takes away those that are no Candidates any more, but never all.
func (s *LoadBalancerSpec) Targets(nodePort int32, have []netip.AddrPort) []netip.AddrPort {
	if nodePort == 0 {
		return nil // nobody serves the port
	}
	nodes, stay := s.Members, s.Frozen && len(s.Members) == 0
	if stay {
		nodes = s.Candidates
	}
	var out []netip.AddrPort
	for _, n := range nodes {
		for _, a := range n.Addresses {
			m := netip.AddrPortFrom(a, uint16(nodePort)) //nolint:gosec // a port
			if slices.Contains(s.IPFamilies, FamilyOf(a)) && (!stay || slices.Contains(have, m)) {
				out = append(out, m)
			}
		}
	}
	if stay && len(out) == 0 {
		return have
	}
	return out
}

// FamilyOf returns the IP family of an address.
func FamilyOf(a netip.Addr) corev1.IPFamily {
	if a.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// HealthCheck is an HTTP GET that a member answers with 200 while it has local endpoints.
type HealthCheck struct {
	Port int32
	Path string
}

// LoadBalancerStatus is what is published of a load balancer.
type LoadBalancerStatus struct {
	// ID is what the cloud's own tools find the load balancer by: its ID, ARN or name. It is published in an event on the Service.
	ID string
	// Ingress becomes the Service's status.loadBalancer.ingress.
	Ingress []corev1.LoadBalancerIngress
	// Annotations are to be set on the Service where they differ; an empty value removes one.
	Annotations map[string]string
	// Warnings are published as events on the Service: wishes that were only partly fulfilled.
	Warnings []string
	// Repaired says what others had changed and Ensure, asked to Verify, has put right: one
	// short text each, published in an event on the Service.
	Repaired []string
}

// AnnotationType is the type of an annotation's value.
type AnnotationType string

// The types of annotation values. An annotation of TypeSelector selects the Nodes that become
// members; its Default, when not empty, is the selector that holds without it.
const (
	TypeString   AnnotationType = "string"
	TypeBool     AnnotationType = "bool"
	TypeInt      AnnotationType = "int"
	TypeEnum     AnnotationType = "enum"
	TypeSelector AnnotationType = "label selector"
	TypeCIDRs    AnnotationType = "CIDR list"
	TypeIP       AnnotationType = "IP address"
	TypeUUID     AnnotationType = "UUID"
	TypeHostname AnnotationType = "host name"
	TypeDuration AnnotationType = "duration"
	TypeList     AnnotationType = "list"
	TypePairs    AnnotationType = "key=value list"
	TypePorts    AnnotationType = "ports"
)

// Annotation is one Service annotation that a provider understands: one row of the table
// from which Services are planned and checked and the reference is generated.
type Annotation struct {
	// Name is the whole key. Where it holds {port}, each number of a port in its place makes one.
	Name string
	// Aliases are other names that mean the same, in the order in which they count, after Name. Settings
	// hold their value by Name. They hold no {port}.
	Aliases []string
	// Type is its value's type.
	Type AnnotationType
	// Parse says what is allowed when it does not take a value that is of Type; nil takes all.
	Parse func(value string) error
	// Enum are the values allowed for TypeEnum.
	Enum []string
	// Min and Max bound TypeInt; both zero means unbounded.
	Min, Max int64
	// Default says what holds without it, for the reference; may be empty.
	Default string
	// Doc is one sentence for the reference.
	Doc string
	// Ignorable says that an invalid value counts as not set. So do invalid values of TypeBool
	// and TypeInt.
	Ignorable bool
	// RefuseNew says that an invalid value is refused for Services that were never served only:
	// what is there keeps what it has. Such a value is among the settings then.
	RefuseNew bool
	// Written marks annotations that the provider writes itself; NotRead ones among them
	// are never an input.
	Written, NotRead bool
}

// Settings are a Service's annotations of the provider's vocabulary, by name. pkg/lb has
// checked them against the table, so the typed getters cannot fail. A nil map is valid.
type Settings map[string]string

// String returns the value of name, or def when it is unset. A set but empty value is a value.
func (s Settings) String(name, def string) string {
	if v, ok := s[name]; ok {
		return v
	}
	return def
}

// Bool returns the value of name, or def when it is neither true nor false.
func (s Settings) Bool(name string, def bool) bool {
	switch s[name] {
	case "true":
		return true
	case "false":
		return false
	}
	return def
}

// Int returns the value of name, or def when it is unset or not an integer.
func (s Settings) Int(name string, def int) int {
	if v, err := strconv.Atoi(s[name]); err == nil {
		return v
	}
	return def
}

// Has reports whether name is set.
func (s Settings) Has(name string) bool {
	_, ok := s[name]
	return ok
}

// MaxSelector is how many bytes a selector of Nodes may have. It bounds what a Service's selector takes at each change of a Node, for which all others
// wait: at 5,000 Nodes an annotation of 250 kB took 1.4 s.
const MaxSelector = 4096

// ParseSelector reads a selector of Nodes: a comma-separated list of key=value, and of key or
// key=, which mean that the label exists whatever its value; of items of the same key the last
// counts, blanks around items and empty items do not. What is no such list is read as a label selector of Kubernetes, such as
// "pool in (a, b),!gpu". The empty selector matches everything. One is of at most MaxSelector bytes.
func ParseSelector(text string) (labels.Selector, error) {
	if len(text) > MaxSelector {
		return nil, fmt.Errorf("a selector of %d characters is too long: %d are allowed", len(text), MaxSelector)
	}
	if s, ok := parsePairs(text); ok {
		return s, nil
	}
	s, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a list such as disk=ssd,gpu nor a label selector: %w", text, err)
	}
	return s, nil
}

// parsePairs reads a list of key=value, key= and key.
func parsePairs(text string) (labels.Selector, bool) {
	byKey := map[string]labels.Requirement{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		key, value, _ := strings.Cut(item, "=")
		op, values := selection.Equals, []string{value}
		if value == "" {
			op, values = selection.Exists, nil
		}
		r, err := labels.NewRequirement(key, op, values)
		if err != nil {
			return nil, false
		}
		byKey[key] = *r
	}
	return labels.NewSelector().Add(slices.Collect(maps.Values(byKey))...), true
}
