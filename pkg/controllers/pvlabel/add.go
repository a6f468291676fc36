package pvlabel

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

// patchTimeout bounds a write, at the API server too. A leader that cannot renew its lease
// ends its controllers at least this long (lease duration less renew deadline, 5 s by
// default) before another may begin.
const patchTimeout = 4 * time.Second

// add writes what each of ready lacks, as far as nothing speaks against it.
func (c *Controller) add(ctx context.Context, ready []*candidate) {
	changes := c.nodeChanges.Load()
	nodes, err := c.Nodes.Lister().List(labels.Everything())
	if err != nil || len(ready) == 0 {
		return
	}
	attached, err := c.attached(ctx, ready)
	var g errgroup.Group
	g.SetLimit(writers)
	for _, n := range ready {
		n.nodes = changes
		if err != nil && bound(n.object) {
			c.failed(ctx, n, fmt.Errorf("where it is attached is unknown: %w", err))
			continue
		}
		if !c.allowed(n, nodes, attached[n.object.Name]) {
			continue
		}
		g.Go(func() error {
			c.write(ctx, n)
			return nil
		})
	}
	_ = g.Wait() // every error is dealt with
}

func bound(object *corev1.PersistentVolume) bool { return object.Spec.ClaimRef != nil }

// attached returns the Nodes that PersistentVolumes are attached to, by their names. Nobody
// is asked when none of ready can be attached.
func (c *Controller) attached(ctx context.Context, ready []*candidate) (map[string][]string, error) {
	if !slices.ContainsFunc(ready, func(n *candidate) bool { return bound(n.object) }) {
		return nil, nil
	}
	list, err := c.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list volumeattachments: %w", err)
	}
	out := map[string][]string{}
	for _, a := range list.Items {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && a.Status.Attached {
			out[*name] = append(out[*name], a.Spec.NodeName)
		}
	}
	return out, nil
}

// Fit is what of a mutation may be added to a PersistentVolume that exists.
type Fit struct {
	// Mutation is what may be added; it is empty where nothing may.
	Mutation pv.Mutation
	// Elsewhere is the Node that it is attached to, and that is not where the mutation says. Nil for none.
	Elsewhere *corev1.Node
	// Stuck is a place of labels in which there is no Node that the PersistentVolume can be used on; nil where there is one.
	Stuck []corev1.NodeSelectorRequirement
	// Waits is node affinity that is left out, as no Node fulfills it yet; nil for none.
	Waits []corev1.NodeSelectorRequirement
}

// FitOf says what of m may be added to object. nodes are all Nodes, attached the names of those that it is attached to.
func FitOf(object *corev1.PersistentVolume, m pv.Mutation, nodes []*corev1.Node, attached []string) Fit {
	place := m.Place()
	for _, node := range nodes {
		if slices.Contains(attached, node.Name) && !pv.Matches(node.Labels, place) {
			return Fit{Elsewhere: node}
		}
	}
	if labels := (pv.Mutation{Labels: m.Labels}).Place(); stuck(object, labels, nodes) {
		return Fit{Stuck: labels}
	}
	f := Fit{Mutation: m}
	if len(m.Requirements) > 0 && !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return pv.Matches(node.Labels, m.Requirements) }) {
		f.Waits, f.Mutation.Requirements = m.Requirements, nil
	}
	return f
}

// allowed reports whether anything of n's mutation may be written, and takes out what may not.
func (c *Controller) allowed(n *candidate, nodes []*corev1.Node, attached []string) bool {
	f := FitOf(n.object, n.mutation, nodes, attached)
	if f.Elsewhere != nil {
		c.Metrics.count(resultContradicted)
		c.once(n.object, reasonElsewhere,
			"Nothing was added, as it is attached to Node %s, which is not in %s: its Pod could not be scheduled there again; if volumes may be attached outside of their zone, "+
				"turn their zones off in the cloud's configuration, otherwise move the Pod", f.Elsewhere.Name, describe(n.mutation.Place()))
		c.settleForNow(n.object)
		return false
	}
	// Nodes that are about to come, or to get their labels, are no reason to complain.
	say := c.once
	if len(nodes) == 0 || slices.ContainsFunc(nodes, uninitialized) {
		say = func(*corev1.PersistentVolume, string, string, ...any) {}
	}
	if f.Stuck != nil {
		c.Metrics.count(resultContradicted)
		say(n.object, reasonNoNodes,
			"Nothing was added, as no Node that it can be used on is in %s: its Pod could not be scheduled any more; compare the labels of the Nodes with the cloud's zones; "+
				"if volumes may be attached outside of their zone, turn their zones off in the cloud's configuration", describe(f.Stuck))
		c.awaitNode(n.object, f.Stuck, n.nodes)
		return false
	}
	n.mutation = f.Mutation
	if f.Waits != nil {
		say(n.object, reasonNoNodes,
			"Node affinity, which could not be changed any more, was not added: no Node is in %s; compare the labels of the Nodes", describe(f.Waits))
		n.waits = f.Waits
		if n.mutation.Empty() {
			c.awaitNode(n.object, f.Waits, n.nodes)
			return false
		}
	}
	return true
}

// stuck reports whether a place of labels would keep a PersistentVolume that can be used now from
// every Node that its node affinity, if any, allows.
func stuck(object *corev1.PersistentVolume, place []corev1.NodeSelectorRequirement, nodes []*corev1.Node) bool {
	usable := false
	for _, node := range nodes {
		if volume.CheckNodeAffinity(object, node.Labels) != nil {
			continue
		}
		if usable = true; pv.Matches(node.Labels, place) {
			return false
		}
	}
	return usable
}

// taintUninitialized is on a Node until a cloud controller manager has given it its labels
// (k8s.io/cloud-provider/api TaintExternalCloudProvider).
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// uninitialized reports whether node waits for its labels.
func uninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintUninitialized })
}

// describe is place for people.
func describe(place []corev1.NodeSelectorRequirement) string {
	var parts []string
	for _, r := range place {
		parts = append(parts, r.Key+"="+strings.Join(r.Values, "|"))
	}
	return strings.Join(parts, ", ")
}

// write adds n's mutation to exactly the PersistentVolume that it was decided for, as that
// was then.
func (c *Controller) write(ctx context.Context, n *candidate) {
	if ctx.Err() != nil {
		return
	}
	object, logger := n.object, klog.FromContext(ctx)
	after, err := c.patch(ctx, n)
	switch {
	case err == nil:
		c.Metrics.count(resultLabeled)
		logger.V(2).Info("PersistentVolume has got its place", "persistentVolume", klog.KObj(object), "labels", n.mutation.Labels, "requirements", len(n.mutation.Requirements))
		c.once(object, reasonLabeled, "Added %s, which were missing", added(n.mutation))
		if len(n.waits) > 0 {
			c.say(after, reasonNoNodes)
			c.awaitNode(after, n.waits, n.nodes)
		} else {
			c.settle(after)
		}
	case apierrors.IsNotFound(err):
		c.queue.Forget(object.Name)
	case apierrors.IsConflict(err): // it has changed meanwhile
		c.queue.AddRateLimited(object.Name)
	default:
		c.failed(ctx, n, err)
	}
}

// added names what m adds.
func added(m pv.Mutation) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		parts = append(parts, fmt.Sprintf("label %s=%s", key, m.Labels[key]))
	}
	if len(m.Requirements) > 0 {
		parts = append(parts, "node affinity "+describe(m.Requirements))
	}
	return strings.Join(parts, ", ")
}

// failed tries again later, as the API server does not take part.
func (c *Controller) failed(ctx context.Context, n *candidate, err error) {
	c.Metrics.count(resultFailed)
	klog.FromContext(ctx).V(2).Info("PersistentVolume is not labeled for now, will try again", "persistentVolume", klog.KObj(n.object), "reason", err.Error())
	if c.queue.NumRequeues(n.object.Name) >= quietTries {
		c.once(n.object, reasonFailed, "Zone and region cannot be added, will try again: %v", err)
	}
	c.queue.AddRateLimited(n.object.Name)
}

func (c *Controller) patch(ctx context.Context, n *candidate) (*corev1.PersistentVolume, error) {
	meta := map[string]any{"uid": n.object.UID, "resourceVersion": n.object.ResourceVersion}
	if len(n.mutation.Labels) > 0 { // null would remove all
		meta["labels"] = n.mutation.Labels
	}
	patch := map[string]any{"metadata": meta}
	if len(n.mutation.Requirements) > 0 {
		patch["spec"] = map[string]any{"nodeAffinity": n.mutation.Apply(n.object).Spec.NodeAffinity}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	// Not ended by ctx: what is under way when the controller ends is waited for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patchTimeout)
	defer cancel()
	after := &corev1.PersistentVolume{}
	err = c.Client.CoreV1().RESTClient().Patch(types.MergePatchType).Resource("persistentvolumes").Name(n.object.Name).
		Timeout(patchTimeout).Body(body).Do(ctx).Into(after)
	return after, err
}
