package nodes

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// instances implements cloudprovider.InstancesV2. The framework asks node by node; who is
// likely to be asked about next is asked about at the same time.
type instances struct {
	*Adapter
	// rounds makes one cycle of the node lifecycle controller share one read.
	rounds *decorate.Rounds
	clock  clock.PassiveClock
	// notReady, uninitialized and initialized are the nodes that each kind of question is about.
	notReady, uninitialized, initialized, noPodCIDRs *decorate.Peers
}

var _ cloudprovider.InstancesV2 = (*instances)(nil)

func newInstances(a *Adapter, monitorPeriod time.Duration) *instances {
	peers := func(is func(*corev1.Node) bool) *decorate.Peers {
		return &decorate.Peers{List: func() []cloud.InstanceRef { return refsOf(a.nodes, a.provider, is) }}
	}
	return &instances{
		Adapter:       a,
		rounds:        decorate.NewRounds(monitorPeriod, nil),
		clock:         clock.RealClock{},
		notReady:      peers(func(n *corev1.Node) bool { return !isReady(n) }),
		uninitialized: peers(isUninitialized),
		initialized:   peers(func(n *corev1.Node) bool { return !isUninitialized(n) }),
		noPodCIDRs:    peers(func(n *corev1.Node) bool { return n.Spec.ProviderID != "" && len(n.Spec.PodCIDRs) == 0 }),
	}
}

// InstanceExists implements cloudprovider.InstancesV2. False, upon which the framework
// deletes the Node, is returned only on the cloud's own word; nodes of other clouds, those that the
// deletion guard keeps and those too new for the cloud's word count as existing.
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if i.foreign(node) {
		return true, nil
	}
	_, err := i.lookup(ctx, node, i.rounds.First(refOf(node, i.provider.HintLabel)), i.notReady)
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
func (i *instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if i.foreign(node) {
		return false, nil
	}
	instance, err := i.lookup(ctx, node, i.rounds.Further(), i.notReady)
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
func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	others := i.initialized
	if isUninitialized(node) {
		others = i.uninitialized
	}
	if i.foreign(node) {
		if isUninitialized(node) {
			return nil, nil
		}
		return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
	}
	instance, err := i.lookup(ctx, node, decorate.MetadataMaxAge, others)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       instance.ProviderID,
		InstanceType:     instance.Type,
		NodeAddresses:    slices.Clone(instance.Addresses), // the framework appends to them
		Zone:             instance.Zone,
		Region:           instance.Region,
		AdditionalLabels: instance.Labels,
	}, nil
}

// WithPodCIDRs implements nodeipam.Find.
func (a *Adapter) WithPodCIDRs(ctx context.Context, node *corev1.Node) (*cloud.Instance, error) {
	i := a.instances
	return i.lookup(ctx, node, decorate.MetadataMaxAge, i.noPodCIDRs)
}

func (i *instances) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration, others *decorate.Peers) (*cloud.Instance, error) {
	ctx, done, err := i.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	instance, err := i.provider.Nodes.Lookup(ctx, refOf(node, i.provider.HintLabel), maxAge, others)
	newborn, age := i.provider.Newborn, i.clock.Since(node.CreationTimestamp.Time)
	if cloud.IsNotFound(err) && newborn > 0 && age < newborn {
		klog.FromContext(ctx).V(4).Info("Instance is not found, which proves nothing yet", "node", klog.KObj(node), "age", age, "newborn", newborn, "reason", err.Error())
		err = cloud.Errorf(cloud.KindUnknown, "%w: %v", errNewborn, err)
	}
	return instance, err
}

// errNewborn is what "not found" becomes about a Node that is younger than Provider.Newborn.
var errNewborn = errors.New("not found, but the node is so new that the cloud may not know its instance yet")

// isKept reports whether err is a "not found" upon which nothing is done. The deletion guard says so
// itself, once and not for each of thousands; a newborn's instance is found soon, or is gone.
func isKept(err error) bool { return deletionguard.IsHeld(err) || errors.Is(err, errNewborn) }

// foreign reports whether the cloud does not answer for the node.
func (i *instances) foreign(node *corev1.Node) bool { return !i.provider.Owns(node) }

// refOf names the node's instance by its provider ID or, without one, by all else that tells;
// hintLabel is cloud.Provider.HintLabel.
func refOf(node *corev1.Node, hintLabel string) cloud.InstanceRef {
	ref := cloud.InstanceRef{NodeName: node.Name, ProviderID: node.Spec.ProviderID}
	if ref.ProviderID != "" {
		return ref
	}
	ref.SystemUUID = node.Status.NodeInfo.SystemUUID
	first, _, _ := strings.Cut(node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",")
	if ip, err := netip.ParseAddr(first); err == nil {
		ref.NodeIP = ip.Unmap()
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
			refs = append(refs, refOf(n, p.HintLabel))
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
