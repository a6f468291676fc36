package cloud

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Provider is one cloud, or one account or region of it. An ability that the cloud
// lacks, or that its configuration turns off, is a nil field; there are no stubs that
// answer "not implemented".
type Provider struct {
	// Name is the value of --cloud-provider and the scheme of provider IDs, e.g. "openstack".
	Name string
	// Settings are what the cloud's configuration file says, by section and key, with defaults and without secrets, for people.
	Settings map[string]map[string]string
	// Instances is required.
	Instances Instances
	// Owns reports whether the cloud answers for a Node; others are neither looked up nor changed.
	// Nil: its provider ID is empty or begins with Name + "://". Nodes with the label ExcludeNode are not asked about.
	Owns func(*corev1.Node) bool
	// HintLabel is the Node label whose value becomes InstanceRef.Hint; empty for none.
	HintLabel string
	// Newborn is how long after an instance's creation the cloud's "not found" proves nothing about
	// it, because its reads lag behind; only Error.Ended does. It is counted from the Node's creation, which is later.
	Newborn time.Duration
	// GivesPodCIDRs is true where Instance.PodCIDRs are known, so that Nodes can get them
	// (--cidr-allocator-type=CloudAllocator).
	GivesPodCIDRs bool
	// LoadBalancers is nil where Services of type LoadBalancer are not served.
	LoadBalancers LoadBalancers
	// Annotations is the vocabulary of Service annotations that LoadBalancers understands;
	// the planner, the Service webhook and the generated reference all read this table.
	Annotations []Annotation
	// CheckLoadBalancer says what of spec Ensure would refuse or only partly fulfill, as far as
	// the wish itself and the configuration tell; it never calls the cloud, so that the Service
	// webhook can ask it about each Service that is written. spec is as pkg/lb plans it, but
	// without Cluster and Members. What depends on the load balancer that a Service has
	// already is at most a warning. Ensure's own refusals are the same rules in the same
	// words. Nil where there are none; must not be slow.
	CheckLoadBalancer func(spec *LoadBalancerSpec) (problems field.ErrorList, warnings []string)
	// LoadBalancing is what the planner must know of LoadBalancers.
	LoadBalancing LoadBalancerTraits
	// Inventory is nil where it is not known what in the cloud is a cluster's own; see MakesNothing.
	Inventory Inventory
	// Routes is nil where pod routes are not managed.
	Routes Routes
	// Routing are the traits of Routes.
	Routing RouteTraits
	// Volumes is nil where PersistentVolumes are not labeled.
	Volumes Volumes
	// InstanceTags is nil where instances get no tags of the user's.
	InstanceTags InstanceTags
	// TagsLabel is the Node label that holds the sum of the tags that its instance has got, as the existing
	// manager writes it. Required with InstanceTags.
	TagsLabel string
	// Identify returns the cluster's name in the cloud's marks, which becomes Cluster.ID: what the
	// existing manager knows by a tag or has written down. It is asked before the controllers start,
	// and may be asked again. Nil: Cluster.UID.
	Identify func(ctx context.Context, cluster Cluster) (string, error)
	// KubeObjects are what the provider uses of Options.Kube, as its configuration names it; rights
	// are given for these and no others.
	KubeObjects []KubeObject
	// Ready answers nil once the cloud can be asked (credentials accepted, endpoints known)
	// and otherwise why not. Required; it must not call the cloud at every probe.
	Ready func(ctx context.Context) error
	// Diagnose looks for what Ready does not tell: whether what the configuration names is there and fits, whether each service that
	// is used may be read, and what is left of quotas. It only reads, and asks anew at each call. The error says what could not be
	// looked at; a Diagnosis may come with it. Nil where nothing is looked for.
	Diagnose func(ctx context.Context) (Diagnosis, error)
	// Run does the provider's background work (reloading credentials that changed on
	// disk, …) until ctx ends. Nil when there is none.
	Run func(ctx context.Context) error
}

// ExcludeNode is the label of a Node that is no instance of the cloud and whose provider ID does not tell so: with "true", no
// cloud owns it. A kubelet may give it to its own Node, as it may a provider ID of another scheme.
const ExcludeNode = "isthmus-cloud.github.io/exclude-node"

// ReadyOnce makes a Provider.Ready of a question to the cloud: once the cloud has answered it is not asked again.
func ReadyOnce(ask func(context.Context) error) func(context.Context) error {
	var ready atomic.Bool
	return func(ctx context.Context) error {
		if ready.Load() {
			return nil
		}
		err := ask(ctx)
		if err == nil {
			ready.Store(true)
		}
		return err
	}
}

// Result is one answer of a batch: exactly one of Value (when Err is nil) and Err.
type Result[T any] struct {
	Value T
	Err   error
}
