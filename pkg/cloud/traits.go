package cloud

import corev1 "k8s.io/api/core/v1"

// LoadBalancerTraits are what the planner and the controller of Services must know of a cloud.
// Functions are pure and fast, and may be nil.
type LoadBalancerTraits struct {
	// Reach is how load balancers reach Nodes.
	Reach Reach
	// NodePorts says that members serve at node ports, so that nobody serves a port without one:
	// there is a warning then. Otherwise traffic arrives at the Service's own port.
	NodePorts bool
	// Eligible leaves out Nodes that can never be members.
	Eligible func(*corev1.Node) bool
	// Elsewhere names who else serves a Service without a class; "" is nobody. Such a Service is left
	// to them. What it had here before stays until it is deleted.
	Elsewhere func(*corev1.Service) string
	// Classes are the whole values of spec.loadBalancerClass that are served, each with its
	// LoadBalancerSpec.Class. A value that goes on with "-" behind one without a Class is taken for
	// a spelling mistake.
	Classes map[string]string
	// Finalizers are those of the existing manager on Services that are served: those of set go on
	// with ours, all go off, but where others serve the Service by now. spec is a hint, as for Delete.
	Finalizers func(spec *LoadBalancerSpec) (set, all []string)
}

// Reach is how load balancers reach the Nodes behind them.
type Reach int

// The ways to reach Nodes.
const (
	// ByInternalIP takes a Node's InternalIPs; a Node without any is no member.
	ByInternalIP Reach = iota
	// ByAnyIP takes the ExternalIPs of an IP family of which a Node has no InternalIP, too.
	ByAnyIP
	// ByInstance takes the instance: members have no addresses, but need a provider ID.
	ByInstance
)

// classDomain is what classes of our own begin with.
const classDomain = "isthmus-cloud.github.io/"

// OwnClasses are LoadBalancerTraits.Classes of a cloud whose existing manager has none:
// "isthmus-cloud.github.io/<provider>", and for each name "isthmus-cloud.github.io/<provider>-<name>".
func OwnClasses(provider string, names ...string) map[string]string {
	own := classDomain + provider
	out := map[string]string{own: ""}
	for _, name := range names {
		out[own+"-"+name] = name
	}
	return out
}
