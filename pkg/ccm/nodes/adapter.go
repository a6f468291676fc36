package nodes

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// aheadMax is how old an answer may be with which a Node is initialized that waited for the API server to take what
// thousands before it got: as old as what its status shows between two cycles at the default --node-status-update-frequency.
const aheadMax = 5 * time.Minute

// Adapter lets the framework's controllers work with a decorated cloud. One lives as long
// as the controllers of one term of leadership; after End no call reaches the cloud.
//
// The framework asks node by node; who is likely to be asked about next is asked about at the same time.
type Adapter struct {
	// Failed, where it is not nil, is told of each answer about a Node that is an error. It is set before all else.
	Failed func(node string, err error)

	provider *decorate.Provider
	// rounds makes one cycle of the node lifecycle controller share one read.
	rounds *Rounds
	clock  clock.PassiveClock
	// notReady, uninitialized and initialized are the nodes that each kind of question is about.
	notReady, uninitialized, initialized, noPodCIDRs *instancecache.Peers
}

var (
	_ cloudprovider.Interface   = (*Adapter)(nil)
	_ cloudprovider.InstancesV2 = (*Adapter)(nil)
)

// NewAdapter returns an adapter whose calls to the cloud end with ctx: the framework ends its controllers
// without waiting for their workers, and makes some calls with a context of its own. monitorPeriod is that of
// the node lifecycle controller.
func NewAdapter(ctx context.Context, p *decorate.Provider, nodes corelisters.NodeLister, monitorPeriod time.Duration) *Adapter {
	peers := func(is func(*corev1.Node) bool) *instancecache.Peers {
		return &instancecache.Peers{List: func() []cloud.InstanceRef { return refsOf(nodes, p, is) }}
	}
	uninitialized := peers(isUninitialized)
	uninitialized.Ahead = aheadMax
	context.AfterFunc(ctx, p.EndLease)
	return &Adapter{
		provider:      p,
		rounds:        NewRounds(monitorPeriod, nil),
		clock:         clock.RealClock{},
		notReady:      peers(func(n *corev1.Node) bool { return !isReady(n) }),
		uninitialized: uninitialized,
		initialized:   peers(func(n *corev1.Node) bool { return !isUninitialized(n) }),
		noPodCIDRs:    peers(func(n *corev1.Node) bool { return n.Spec.ProviderID != "" && len(n.Spec.PodCIDRs) == 0 }),
	}
}

// End returns when no call to the cloud that needs the lease is under way any more.
func (a *Adapter) End() { a.provider.EndLease() }

// InstanceExists implements cloudprovider.InstancesV2. False, upon which the framework
// deletes the Node, is returned only on the cloud's own word; nodes of other clouds, those that the
// deletion guard keeps and those too new for the cloud's word count as existing.
func (a *Adapter) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if a.foreign(node) {
		return true, nil
	}
	_, err := a.lookup(ctx, node, a.rounds.First(RefOf(node, a.provider.HintLabel)), a.notReady)
	if cloud.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Cloud says that the node's instance does not exist", "node", klog.KObj(node), "providerID", node.Spec.ProviderID, "reason", err.Error())
		return false, nil
	}
	if isKept(err) {
		return true, nil
	}
	return err == nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (a *Adapter) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if a.foreign(node) {
		return false, nil
	}
	instance, err := a.lookup(ctx, node, a.rounds.Further(), a.notReady)
	if isKept(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return instance.Shutdown, nil
}

// InstanceMetadata implements cloudprovider.InstancesV2. For a node of another cloud it
// answers so that the framework leaves the node alone: nil while the node waits to be
// initialized, nothing new after that.
func (a *Adapter) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	maxAge, others := instancecache.MetadataMaxAge, a.initialized
	if isUninitialized(node) {
		others = a.uninitialized
		if node.Spec.ProviderID == "" { // what was read before the Node was made may be another machine that has had its name
			maxAge = min(maxAge, max(0, a.clock.Since(node.CreationTimestamp.Time)))
		}
	}
	if a.foreign(node) {
		if isUninitialized(node) {
			return nil, nil
		}
		return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
	}
	instance, err := a.lookup(ctx, node, maxAge, others)
	if err == nil && isUninitialized(node) {
		err = instance.Unfit
		a.tell(node, err)
	}
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       instance.ProviderID,
		InstanceType:     instance.Type,
		NodeAddresses:    addressesFor(node, instance),
		Zone:             instance.Zone,
		Region:           instance.Region,
		AdditionalLabels: instance.Labels,
	}, nil
}

// addressesFor are an instance's addresses, among them the ones that the node's kubelet was given where the machine has them. The
// framework wants those, and appends to what it gets.
func addressesFor(node *corev1.Node, instance *cloud.Instance) []corev1.NodeAddress {
	out := slices.Clone(instance.Addresses)
	for _, ip := range nodeIPs(node) {
		if !slices.Contains(instance.OtherIPs, ip) {
			continue
		}
		internal := slices.IndexFunc(out, func(a corev1.NodeAddress) bool {
			old, err := netip.ParseAddr(a.Address)
			return a.Type == corev1.NodeInternalIP && err == nil && old.Is4() == ip.Is4()
		})
		if internal < 0 {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
			continue
		}
		old := out[internal].Address
		for i := range out { // where it is the external one, too, as nothing says which is which
			if out[i].Address == old {
				out[i].Address = ip.String()
			}
		}
	}
	return out
}

// nodeIPs are the addresses that the node's kubelet was given (--node-ip).
func nodeIPs(node *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for text := range strings.SplitSeq(node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",") {
		if ip, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// WithPodCIDRs implements nodeipam.Find.
func (a *Adapter) WithPodCIDRs(ctx context.Context, node *corev1.Node) (*cloud.Instance, error) {
	return a.lookup(ctx, node, instancecache.MetadataMaxAge, a.noPodCIDRs)
}

// Find implements kubeletserving.Find: no answer from before it was asked for will do.
func (a *Adapter) Find(ctx context.Context, node *corev1.Node) (*cloud.Instance, error) {
	return a.lookup(ctx, node, 0, nil)
}

func (a *Adapter) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration, others *instancecache.Peers) (*cloud.Instance, error) {
	ctx, span := tracing.Start(ctx, "node lookup")
	defer span.End()
	span.Set(tracing.Node, node.Name)
	instance, err := a.provider.Nodes.Lookup(ctx, RefOf(node, a.provider.HintLabel), maxAge, others)
	if err != nil {
		span.Fail(cloud.KindOf(err).String())
	}
	newborn, age := a.provider.Newborn, a.clock.Since(node.CreationTimestamp.Time)
	if newborn > 0 && age < newborn && cloud.IsNotFound(err) && !cloud.IsEnded(err) {
		klog.FromContext(ctx).V(4).Info("Instance is not found, which proves nothing yet", "node", klog.KObj(node), "age", age, "newborn", newborn, "reason", err.Error())
		err = cloud.Errorf(cloud.KindUnknown, "%w: %v", errNewborn, err)
	}
	a.tell(node, err)
	return instance, err
}

// tell tells Failed, unless nothing failed or the error is kept.
func (a *Adapter) tell(node *corev1.Node, err error) {
	if a.Failed != nil && err != nil && !isKept(err) {
		a.Failed(node.Name, err)
	}
}

// errNewborn is what "not found" becomes about a Node that is younger than Provider.Newborn.
var errNewborn = errors.New("not found, but the node is so new that the cloud may not know its instance yet")

// isKept reports whether err is a "not found" upon which nothing is done. The deletion guard says so
// itself, once and not for each of thousands; a newborn's instance is found soon, or is gone.
func isKept(err error) bool { return deletionguard.IsHeld(err) || errors.Is(err, errNewborn) }

// foreign reports whether the cloud does not answer for the node.
func (a *Adapter) foreign(node *corev1.Node) bool { return !a.provider.Owns(node) }

// RefOf names the node's instance by its provider ID or, without one, by all else that tells;
// hintLabel is cloud.Provider.HintLabel.
func RefOf(node *corev1.Node, hintLabel string) cloud.InstanceRef {
	ref := cloud.InstanceRef{NodeName: node.Name, ProviderID: node.Spec.ProviderID}
	if ref.ProviderID != "" {
		return ref
	}
	ref.SystemUUID = node.Status.NodeInfo.SystemUUID
	if ips := nodeIPs(node); len(ips) > 0 {
		ref.NodeIP = ips[0]
	}
	if hintLabel != "" {
		ref.Hint = node.Labels[hintLabel]
	}
	return ref
}

// refsOf lists the provider's nodes of which is holds.
func refsOf(nodes corelisters.NodeLister, p *decorate.Provider, is func(*corev1.Node) bool) []cloud.InstanceRef {
	list, err := nodes.List(labels.Everything())
	if err != nil { // a lister reads memory: it has no errors
		return nil
	}
	refs := make([]cloud.InstanceRef, 0, len(list))
	for _, n := range list {
		if p.Owns(n) && is(n) {
			refs = append(refs, RefOf(n, p.HintLabel))
		}
	}
	return refs
}

func isUninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == cloudproviderapi.TaintExternalCloudProvider
	})
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Initialize implements cloudprovider.Interface. There is nothing to do: the provider's
// background work runs on every replica, leader or not.
func (*Adapter) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface: pkg/controllers/service needs none.
func (*Adapter) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (a *Adapter) InstancesV2() (cloudprovider.InstancesV2, bool) { return a, true }

// Routes implements cloudprovider.Interface: the route controller is our own.
func (*Adapter) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Instances implements cloudprovider.Interface: InstancesV2 takes its place.
func (*Adapter) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 takes its place.
func (*Adapter) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (*Adapter) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (a *Adapter) ProviderName() string { return a.provider.Name }

// HasClusterID implements cloudprovider.Interface: the UID of kube-system.
func (*Adapter) HasClusterID() bool { return true }

// nodeClient is the client of the framework's two controllers of Nodes. It does not send what changes
// nothing, and does not ask for what is known:
//
// The framework compares addresses by their type and so takes those of a Node with two of one
// type, as a dual-stack Node has, for changed at every sync.
//
// It makes an Event "Node synced successfully" of each Node that it initializes, a third write
// beside the Node and its status that says what the Node says itself; the log has it, too.
//
// Every five seconds the node lifecycle controller asks for each Node whose instance is shut down, in
// whatever version, to see whether it has the taint: the informer has it. The taint is written with the
// version that was read, so that an old one is a conflict, after which the API server is asked.
type nodeClient struct {
	kubernetes.Interface
	nodes corelisters.NodeLister
}

// NewClient returns c as the framework's two controllers of Nodes are to have it.
func NewClient(c kubernetes.Interface, nodes corelisters.NodeLister) kubernetes.Interface {
	return nodeClient{c, nodes}
}

// CoreV1 implements kubernetes.Interface.
func (c nodeClient) CoreV1() corev1client.CoreV1Interface {
	return nodeCore{c.Interface.CoreV1(), c.nodes}
}

type nodeCore struct {
	corev1client.CoreV1Interface
	nodes corelisters.NodeLister
}

// Nodes implements corev1client.NodesGetter.
func (c nodeCore) Nodes() corev1client.NodeInterface {
	return knownNodes{c.CoreV1Interface.Nodes(), c.nodes}
}

// Events implements corev1client.EventsGetter.
func (c nodeCore) Events(namespace string) corev1client.EventInterface {
	return nodeEvents{c.CoreV1Interface.Events(namespace)}
}

type nodeEvents struct{ corev1client.EventInterface }

// initialized is the reason of the framework's Event.
const initialized = "Synced"

// CreateWithEventNamespace implements corev1client.EventInterface; the framework's sink has no other way.
func (e nodeEvents) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == initialized && event.Type == corev1.EventTypeNormal {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespace(event) //nolint:staticcheck // what is asked for is passed on
}

type knownNodes struct {
	corev1client.NodeInterface
	nodes corelisters.NodeLister
}

// anyVersion is a resource version that asks for no certain one.
const anyVersion = "0"

// Get implements corev1client.NodeInterface.
func (n knownNodes) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error) {
	if opts.ResourceVersion == anyVersion {
		if node, err := n.nodes.Get(name); err == nil {
			return node.DeepCopy(), nil
		}
	}
	return n.NodeInterface.Get(ctx, name, opts)
}

// emptyPatch is what the framework makes of two Nodes that are the same.
const emptyPatch = "{}"

// Patch implements corev1client.NodeInterface. The answer to an empty patch has nothing but
// the name: the framework does not look at it.
func (n knownNodes) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if string(data) == emptyPatch && slices.Equal(subresources, []string{"status"}) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}
