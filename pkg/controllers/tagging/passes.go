package tagging

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

const (
	// untagTries is how often tags are tried to be removed: nobody waits for it.
	untagTries = 9
	// labelsAtOnce is how many Nodes are written at a time, and labelTimeout bounds a write.
	labelsAtOnce = 10
	labelTimeout = 4 * time.Second
)

// tag tags the instances of the Nodes that lack it, and writes that into their labels.
func (c *Controller) tag(ctx context.Context, all []*corev1.Node) (next time.Time) {
	open := map[types.UID]bool{}
	var due []*corev1.Node
	now := c.Clock.Now()
	for _, n := range all {
		if !c.lacks(n) {
			c.forget(n.UID)
			continue
		}
		open[n.UID] = true
		if at := c.failed[n.UID].at; at.After(now) {
			next = earlier(next, at)
		} else {
			due = append(due, n)
		}
	}
	maps.DeleteFunc(c.failed, func(uid types.UID, _ retry) bool { return !open[uid] })
	if len(due) == 0 {
		return next
	}
	c.mu.Lock()
	for _, n := range due {
		c.asked[n.UID] = true
	}
	c.mu.Unlock()
	ctx, span := tracing.Start(ctx, "instances tag")
	defer span.End()
	span.Set(tracing.Node, due[0].Name)
	span.SetInt(tracing.Count, len(due))
	errs := c.Instances.Tag(ctx, idsOf(due), c.Tags)
	inflight.Each(labelsAtOnce, slices.All(due), func(k int, n *corev1.Node) {
		if errs[k] == nil {
			errs[k] = c.label(ctx, n)
		}
	})
	for k, n := range due {
		if errs[k] == nil {
			delete(c.failed, n.UID)
			continue
		}
		if ctx.Err() != nil {
			return next
		}
		r := c.failed[n.UID].again(now)
		c.failed[n.UID] = r
		next = earlier(next, r.at)
		c.report(ctx, n, errs[k])
	}
	return next
}

// forget notes that the label says now what is to be known of the Node.
func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, uid)
}

// report logs that a Node's instance is not tagged. EC2 and its like do not know at once of what they have made.
func (c *Controller) report(ctx context.Context, n *corev1.Node, err error) {
	logger := klog.FromContext(ctx).WithValues("node", klog.KObj(n), "providerID", n.Spec.ProviderID)
	if cloud.IsNotFound(err) && c.Clock.Since(n.CreationTimestamp.Time) < c.Newborn {
		logger.V(2).Info("The cloud does not know the new Node's instance yet, will tag it again", "reason", err.Error())
		return
	}
	logger.Error(err, "The Node's instance is not tagged, will try again")
}

func idsOf(nodes []*corev1.Node) []string {
	out := make([]string, len(nodes))
	for k, n := range nodes {
		out[k] = n.Spec.ProviderID
	}
	return out
}

// again is a retry after one failure more.
func (r retry) again(now time.Time) retry {
	r.failures++
	r.at = now.Add(backoff.Doubling(retryFirst, retryMost, r.failures))
	return r
}

// label writes into the Node that its instance has the tags. A Node of the same name that has come meanwhile does not get it.
func (c *Controller) label(ctx context.Context, n *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, labelTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "labels": map[string]string{c.Label: c.sum}}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it went after its instance was tagged: its end is going to be seen
	}
	if err != nil {
		return fmt.Errorf("label node %s: %w", n.Name, err)
	}
	return nil
}

// untag removes the tags of the instances whose Nodes are gone, unless there is another Node of it by now.
func (c *Controller) untag(ctx context.Context, all []*corev1.Node) (next time.Time) {
	back := map[string]bool{}
	for _, n := range all {
		back[c.Instances.InstanceOf(n.Spec.ProviderID)] = true // which the Node may write in another form by now
	}
	now := c.Clock.Now()
	var due []string
	c.mu.Lock()
	maps.DeleteFunc(c.gone, func(id string, _ retry) bool { return back[c.Instances.InstanceOf(id)] })
	for id, r := range c.gone {
		if r.at.After(now) {
			next = earlier(next, r.at)
		} else {
			due = append(due, id)
		}
	}
	c.mu.Unlock()
	if len(due) == 0 {
		return next
	}
	slices.Sort(due)
	ctx, span := tracing.Start(ctx, "instances untag")
	defer span.End()
	span.SetInt(tracing.Count, len(due))
	errs := c.Instances.Untag(ctx, due, c.Tags)
	if ctx.Err() != nil {
		return next
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, id := range due {
		r := c.gone[id].again(now)
		switch err := cloud.IgnoreNotFound(errs[k]); {
		case err == nil || cloud.KindOf(err) == cloud.KindInvalid || cloud.KindOf(err) == cloud.KindConflict:
			delete(c.gone, id)
		case r.failures >= untagTries:
			delete(c.gone, id)
			klog.FromContext(ctx).Error(err, "The tags of an instance whose Node is gone stay: remove them by hand", "providerID", id)
		default:
			c.gone[id] = r
			next = earlier(next, r.at)
			klog.FromContext(ctx).V(2).Info("The tags of an instance whose Node is gone cannot be removed, will try again", "providerID", id, "reason", err.Error())
		}
	}
	return next
}
