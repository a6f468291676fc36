package nodeipam

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/workers"
)

// FromCloud gives Nodes the pod CIDRs that the cloud has given their instances. It waits until a
// Node has its provider ID: what it gives stays for the Node's life, and a name is no proof.
// The cloud keeps the account, so that there is none here. NewFromCloud makes one, Run runs
// it once.
type FromCloud struct {
	Cluster
	owns  func(*corev1.Node) bool
	find  Find
	queue workqueue.TypedRateLimitingInterface[string]
}

// Find returns a Node's instance.
type Find func(ctx context.Context, node *corev1.Node) (*cloud.Instance, error)

// NewFromCloud makes a FromCloud for the Nodes of which owns holds.
func NewFromCloud(cluster Cluster, owns func(*corev1.Node) bool, find Find) *FromCloud {
	return &FromCloud{Cluster: cluster, owns: owns, find: find, queue: newQueue()}
}

// Run works until ctx ends. It returns when no write is under way any more.
func (c *FromCloud) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	informer := c.Nodes.Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.seen,
		UpdateFunc: func(_, now any) { c.seen(now) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it is there
	workers.Run(ctx, c.queue, concurrency, "Node gets no pod CIDR for now, will try again", c.assign)
	return nil
}

func (c *FromCloud) seen(obj any) {
	if node, ok := obj.(*corev1.Node); ok && c.lacks(node) {
		c.queue.Add(node.Name)
	}
}

// lacks reports whether the Node is to get pod CIDRs.
func (c *FromCloud) lacks(node *corev1.Node) bool {
	return len(node.Spec.PodCIDRs) == 0 && node.Spec.ProviderID != "" && node.DeletionTimestamp == nil && c.owns(node)
}

// assign gives the Node its instance's CIDRs if it has none.
func (c *FromCloud) assign(ctx context.Context, name string) error {
	node, err := c.Nodes.Lister().Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("node %s: %w", name, err)
	case !c.lacks(node):
		return nil
	}
	instance, err := c.find(ctx, node)
	if err != nil {
		return err
	}
	if len(instance.PodCIDRs) == 0 {
		c.tell(node, eventNotAvailable, "Node waits for a pod CIDR: the cloud has given its instance %s none", instance.ProviderID)
		return fmt.Errorf("node %s: the cloud has given instance %s no pod CIDR", name, instance.ProviderID)
	}
	err = c.give(ctx, node, instance.PodCIDRs)
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Node has got the pod CIDRs of its instance", "node", klog.KObj(node), "podCIDRs", instance.PodCIDRs)
	case apierrors.IsNotFound(err):
		return nil
	default:
		c.tell(node, eventFailed, "Pod CIDRs %v cannot be set, will try again: %v", instance.PodCIDRs, err)
	}
	return err
}

// tell makes an event at the third failure in a row, for the first heal by themselves.
func (c *FromCloud) tell(node *corev1.Node, reason, format string, args ...any) {
	if c.queue.NumRequeues(node.Name) == quietTries {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, reason, format, args...)
	}
}
