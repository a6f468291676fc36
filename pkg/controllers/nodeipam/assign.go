package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// Reasons of events. The first two are kube-controller-manager's. The comments are what docs/reference/events.md says of each.
const (
	// Warning on Node: there is no pod CIDR left for it, or the cloud has given its instance none. Next: make room in --cluster-cidr, or see
	// that the cloud gives one.
	eventNotAvailable = "CIDRNotAvailable"
	// Warning on Node: the API server did not take its pod CIDRs, and it is tried again. Next: if it stays, look at the API server's answer
	// in the event.
	eventFailed = "CIDRAssignmentFailed"
	// Warning on Node: its pod CIDR lies outside of --cluster-cidr, and is left as it is. Next: correct --cluster-cidr, or make the Node anew.
	eventOutOfRange = "CIDROutOfRange"
	// Warning on Node: another Node has its pod CIDR, too. Next: make one of the two Nodes anew.
	eventShared = "CIDRShared"
	// Warning on Node: somebody else has given it a pod CIDR while this controller gives them. Next: turn off the other allocator
	// (kube-controller-manager's node-ipam-controller).
	eventOthers = "CIDRAssignedByOthers"
)

const (
	// patchTimeout bounds a write, at the API server too. A leader that cannot renew its lease
	// ends its controllers at least this long (lease duration less renew deadline, 5 s by
	// default) before another may begin, so that no write arrives after the other's first list.
	patchTimeout = 4 * time.Second
	// quietTries is how many failures of a Node in a row are no event: most heal at once.
	quietTries = 2
	// repeatAfter is how long an event that no CIDR is left is not repeated for a Node.
	repeatAfter = 10 * time.Minute
)

// assign gives the Node its CIDRs if it has none.
func (c *Controller) assign(ctx context.Context, name string) error {
	node, h, err := c.reserve(name)
	var full *fullError
	switch {
	case errors.As(err, &full):
		c.noneLeft(node, full)
		return err
	case err != nil || node == nil || h.assigned:
		return err
	}
	err = c.give(ctx, node, h.cidrs)
	switch {
	case err == nil:
		c.mu.Lock()
		c.confirm(node.UID)
		c.mu.Unlock()
		klog.FromContext(ctx).V(2).Info("Node has got its pod CIDRs", "node", klog.KObj(node), "podCIDRs", h.cidrs)
		return nil
	case apierrors.IsNotFound(err):
		c.deleted(node)
		return nil
	}
	// The CIDRs stay reserved: the write may have been carried out all the same.
	if c.queue.NumRequeues(name) >= quietTries && c.unassigned(node.UID) {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, eventFailed, "Pod CIDRs %v cannot be set, will try again: %v", h.cidrs, err)
	}
	return err
}

// reserve reads the Node from the cache and reserves CIDRs for it; node is nil when there is
// nothing to do. The Node is read under the ledger's lock, so that either it is still there
// and its deletion is going to free what is reserved now, or it is not seen.
func (c *Controller) reserve(name string) (*corev1.Node, holding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.Nodes.Lister().Get(name)
	switch {
	case apierrors.IsNotFound(err):
		delete(c.waiting, name)
		return nil, holding{}, nil
	case err != nil:
		return nil, holding{}, fmt.Errorf("node %s: %w", name, err)
	case node.DeletionTimestamp != nil || len(node.Spec.PodCIDRs) > 0:
		return nil, holding{}, nil
	}
	h, err := c.ledger.reserve(node.UID)
	if err != nil {
		return node, holding{}, fmt.Errorf("node %s: %w", name, err)
	}
	delete(c.waiting, name)
	return node, h, nil
}

// confirm notes that the Node has what was reserved for it.
func (c *Controller) confirm(uid types.UID) {
	if h, ok := c.ledger.held[uid]; ok {
		h.assigned = true
		c.ledger.held[uid] = h
	}
}

func (c *Controller) unassigned(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ledger.held[uid].assigned
}

// noneLeft makes the Node wait until a CIDR is free, and says so.
func (c *Controller) noneLeft(node *corev1.Node, full *fullError) {
	c.mu.Lock()
	last, waits := c.waiting[node.Name]
	again := !waits || time.Since(last) > repeatAfter
	if again {
		last = time.Now()
	}
	c.waiting[node.Name] = last
	c.mu.Unlock()
	if again {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, eventNotAvailable,
			"Node waits for a pod CIDR: %v; remove unused Nodes or extend --cluster-cidr", full)
	}
}

// give sets the CIDRs of exactly this Node. The API server refuses it when the Node has
// others, and when the name belongs to another Node by now.
func (c *Cluster) give(ctx context.Context, node *corev1.Node, cidrs []netip.Prefix) error {
	ctx, span := tracing.Start(ctx, "node pod CIDRs")
	defer span.End()
	span.Set(tracing.Node, node.Name)
	texts := make([]string, len(cidrs))
	for i, cidr := range cidrs {
		texts[i] = cidr.String()
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"spec":     map[string]any{"podCIDR": texts[0], "podCIDRs": texts},
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	// Not ended by ctx: what is under way when the controller ends is waited for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patchTimeout)
	defer cancel()
	err = c.Client.CoreV1().RESTClient().Patch(types.MergePatchType).Resource("nodes").Name(node.Name).
		Timeout(patchTimeout).Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("set pod CIDRs of node %s: %w", node.Name, err)
	}
	return nil
}
