package ccm

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// instances implements cloudprovider.InstancesV2. The framework asks node by node; who is
// likely to be asked about next is asked about at the same time.
type instances struct {
	*adapter
	// rounds makes one cycle of the node lifecycle controller share one read.
	rounds *decorate.Rounds
	// notReady, uninitialized and initialized are the nodes that each kind of question is about.
	notReady, uninitialized, initialized *decorate.Peers
}

var _ cloudprovider.InstancesV2 = (*instances)(nil)

func newInstances(a *adapter, monitorPeriod time.Duration) *instances {
	peers := func(is func(*corev1.Node) bool) *decorate.Peers {
		return &decorate.Peers{List: func() []cloud.InstanceRef { return refsOf(a.nodes, a.provider.Name, is) }}
	}
	return &instances{
		adapter:       a,
		rounds:        decorate.NewRounds(monitorPeriod, nil),
		notReady:      peers(func(n *corev1.Node) bool { return !isReady(n) }),
		uninitialized: peers(isUninitialized),
		initialized:   peers(func(n *corev1.Node) bool { return !isUninitialized(n) }),
	}
}

// InstanceExists implements cloudprovider.InstancesV2. False, upon which the framework
// deletes the Node, is returned only on the cloud's own word; nodes of other clouds, and those
// that the deletion guard keeps, count as existing.
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if i.foreign(node) {
		return true, nil
	}
	_, err := i.lookup(ctx, node, i.rounds.First(refOf(node)), i.notReady)
	if cloud.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Cloud says that the node's instance does not exist", "node", klog.KObj(node), "providerID", node.Spec.ProviderID, "reason", err.Error())
		return false, nil
	}
	if deletionguard.IsHeld(err) { // the guard says so itself, once and not for each of thousands
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
	if deletionguard.IsHeld(err) {
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

func (i *instances) lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration, others *decorate.Peers) (*cloud.Instance, error) {
	ctx, done, err := i.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.provider.Nodes.Lookup(ctx, refOf(node), maxAge, others)
}

// foreign reports whether the node's provider ID is another cloud's.
func (i *instances) foreign(node *corev1.Node) bool { return isForeign(i.provider.Name, node) }

func isForeign(provider string, node *corev1.Node) bool {
	scheme, _, ok := strings.Cut(node.Spec.ProviderID, "://")
	return ok && scheme != provider
}

func refOf(node *corev1.Node) cloud.InstanceRef {
	ref := cloud.InstanceRef{NodeName: node.Name, ProviderID: node.Spec.ProviderID}
	if ref.ProviderID == "" {
		ref.SystemUUID = node.Status.NodeInfo.SystemUUID
	}
	return ref
}

// refsOf lists the provider's nodes of which is holds.
func refsOf(nodes corelisters.NodeLister, provider string, is func(*corev1.Node) bool) []cloud.InstanceRef {
	list, err := nodes.List(labels.Everything())
	if err != nil { // a lister reads memory: it has no errors
		return nil
	}
	refs := make([]cloud.InstanceRef, 0, len(list))
	for _, n := range list {
		if !isForeign(provider, n) && is(n) {
			refs = append(refs, refOf(n))
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
