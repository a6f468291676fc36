package service

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// republishEvery is how often others' changes to what we publish are undone at most, so
// that two controllers that serve the same Service do not write as fast as they can.
const republishEvery = time.Minute

// wish is what a Service asks for.
type wish struct {
	service  *corev1.Service
	spec     *cloud.LoadBalancerSpec
	plan     plan
	warnings []string
}

// ensure makes the cloud match a Service that is ours.
func (c *Controller) ensure(ctx context.Context, e *entry, service *corev1.Service, class string) time.Duration {
	e.foreign = false
	if e.made {
		e.service = service
	}
	selector, err := lb.Selector(service, c.Provider.Annotations)
	if err != nil { // Plan says what is wrong with it; each Node may be a member
		selector = labels.Everything()
	}
	set, selection, err := c.members(e, selector)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read the Nodes")
		return firstRetry
	}
	w := wish{service: service}
	w.spec, w.warnings, err = lb.Plan(service, set, c.Cluster, c.Provider)
	if err != nil {
		w.plan = plan{rest: digest([]byte(string(service.UID) + " " + err.Error())), members: selection.Digest}
	} else {
		w.spec.Class = class
		w.plan = planOf(w.spec, selection.Digest)
	}
	if wait := c.holdBack(e, w.plan); wait > 0 {
		return c.follow(ctx, e, w, wait)
	}
	c.warnOnce(e, service, w.warnings)
	if err != nil {
		e.done = nil
		return c.refused(ctx, e, failure{service, "ensure", w.plan, reasonFailed, "Error syncing load balancer"}, w, err)
	}
	complete, verify := e.done != nil && e.done.plan.rest == w.plan.rest, e.due(c.Clock.Now())
	switch {
	case complete && !verify && e.done.plan.members == w.plan.members:
		return c.keep(ctx, e, service)
	case complete && !verify:
		if again, ok := c.updateMembers(ctx, e, w); ok {
			return again
		}
	}
	return c.ensureAll(ctx, e, w, verify)
}

// members returns the Nodes and what selector selects of them, and has a change of that
// noticed from now on.
func (c *Controller) members(e *entry, selector labels.Selector) (*lb.Nodes, *lb.Selection, error) {
	for {
		set, err := c.nodes.current()
		if err != nil {
			return nil, nil, err
		}
		selection := set.Select(selector)
		e.watching.Store(&watch{selector: selector, digest: selection.Digest})
		// A pass over the Services in between would have missed us.
		if again, err := c.nodes.current(); err == nil && again == set {
			return set, selection, nil
		}
	}
}

// ensureAll has the cloud make the load balancer as wished, and publishes it.
func (c *Controller) ensureAll(ctx context.Context, e *entry, w wish, verify bool) time.Duration {
	operation, doing := "ensure", "Error syncing load balancer: failed to ensure load balancer"
	if verify {
		operation = "verify"
	}
	news := e.done == nil || e.done.plan.rest != w.plan.rest
	same := !news && e.done.plan == w.plan // so that what is put right is others' doing
	if news {
		e.done = nil
		c.once(e, w.service, corev1.EventTypeNormal, reasonEnsuring, "Ensuring load balancer")
	}
	c.sayWithoutNodes(e, w)
	claimed, err := c.claim(ctx, e, w.service)
	if apierrors.IsNotFound(err) {
		return 0 // the informer will say so
	}
	if err != nil {
		return c.failed(ctx, e, failure{w.service, operation, w.plan, reasonFailed, "Error syncing load balancer: failed to add load balancer cleanup finalizer"}, err)
	}
	e.made, e.service = true, w.service
	w.spec.Verify = verify
	klog.FromContext(ctx).V(2).Info("Ensuring load balancer", "members", len(w.spec.Members), "verify", verify)
	status, err := c.LoadBalancers.Ensure(ctx, w.spec)
	if err != nil {
		if status != nil {
			c.announce(ctx, e, claimed, &w, status)
		}
		return c.refused(ctx, e, failure{w.service, operation, w.plan, reasonFailed, doing}, w, err)
	}
	c.warnOnce(e, w.service, status.Warnings)
	if same && len(status.Repaired) > 0 {
		c.Metrics.repairs.Inc()
		c.Recorder.Event(w.service, corev1.EventTypeWarning, reasonRepaired, "Others had changed the load balancer, put right: "+list(status.Repaired))
	}
	if _, err := c.publish(ctx, e, claimed, status); err != nil && !apierrors.IsNotFound(err) {
		return c.failed(ctx, e, failure{w.service, operation, w.plan, reasonFailed, "Error syncing load balancer: failed to update load balancer status"}, err)
	}
	c.completed(e, w, status, verify)
	c.count(operation, resultDone)
	if news {
		c.Recorder.Event(w.service, corev1.EventTypeNormal, reasonEnsured, "Ensured load balancer")
	}
	return c.untilVerify(e)
}

// announce publishes what is known of a load balancer that is not done yet, but for its addresses.
func (c *Controller) announce(ctx context.Context, e *entry, service *corev1.Service, w *wish, status *cloud.LoadBalancerStatus) {
	c.warnOnce(e, service, status.Warnings)
	_, err := c.patch(ctx, e, service, func(s *corev1.Service) {
		if !hasAnnotations(s, status.Annotations) {
			s.Annotations = overlay(s.Annotations, status.Annotations)
		}
	})
	if err != nil { // the next attempt says it again
		klog.FromContext(ctx).Error(err, "Cannot publish what is known of the load balancer")
		return
	}
	w.plan = c.planWith(w, status)
	e.about = w.plan.rest
}

// planWith is the plan that the Service comes back with when status is published: the annotations
// are part of it.
func (c *Controller) planWith(w *wish, status *cloud.LoadBalancerStatus) plan {
	after := *w.spec
	after.Settings, _, _ = lb.Check(overlay(w.service.Annotations, status.Annotations), c.Provider.Annotations)
	return planOf(&after, w.plan.members)
}

// completed notes what has been made.
func (c *Controller) completed(e *entry, w wish, status *cloud.LoadBalancerStatus, verified bool) {
	e.done = &completion{plan: c.planWith(&w, status), status: status}
	e.succeeded()
	if c.SyncPeriod > 0 && (verified || e.verifyAt.IsZero()) {
		e.verifyAt = c.Clock.Now().Add(spread(c.SyncPeriod))
	}
}

// untilVerify is how long it is until the load balancer is to be read afresh; zero for never.
func (c *Controller) untilVerify(e *entry) time.Duration {
	if e.verifyAt.IsZero() {
		return 0
	}
	return max(e.verifyAt.Sub(c.Clock.Now()), time.Millisecond)
}

// keep sees to it that the Service of a complete load balancer shows it.
func (c *Controller) keep(ctx context.Context, e *entry, service *corev1.Service) time.Duration {
	if c.isPublished(service, e.done.status) {
		return c.untilVerify(e)
	}
	now := c.Clock.Now()
	if wait := e.republished.Add(republishEvery).Sub(now); wait > 0 {
		return wait
	}
	e.republished = now
	klog.FromContext(ctx).V(2).Info("Publishing the load balancer again")
	if _, err := c.publish(ctx, e, service, e.done.status); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Cannot publish the load balancer")
		return republishEvery
	}
	return c.untilVerify(e)
}

// updateMembers has the cloud change the members only. It reports false when that was not
// enough because there is no load balancer any more.
func (c *Controller) updateMembers(ctx context.Context, e *entry, w wish) (time.Duration, bool) {
	const operation, doing = "update_members", "Error updating load balancer with new hosts"
	klog.FromContext(ctx).V(2).Info("Updating the members of the load balancer", "members", len(w.spec.Members))
	e.done.plan.members = "" // until it is known that all of them are there
	began := c.Clock.Now()
	err := c.LoadBalancers.UpdateMembers(ctx, w.spec)
	c.Metrics.hostLatency.Observe(c.Clock.Since(began).Seconds())
	if err == nil {
		e.done.plan.members = w.plan.members
		e.succeeded()
		c.count(operation, resultDone)
		if !c.sayWithoutNodes(e, w) {
			c.Recorder.Event(w.service, corev1.EventTypeNormal, reasonUpdated, "Updated load balancer with new hosts")
		}
		return c.untilVerify(e), true
	}
	if cloud.IsNotFound(err) {
		e.done = nil
		return 0, false
	}
	if !isWaiting(err) {
		e.done = nil // the next attempt looks at everything
		c.Metrics.nodeSyncErrors.Inc()
	}
	return c.refused(ctx, e, failure{w.service, operation, w.plan, reasonUpdateFailed, doing}, w, err), true
}

// sayWithoutNodes warns when there are no members, and reports whether that is so.
func (c *Controller) sayWithoutNodes(e *entry, w wish) bool {
	if len(w.spec.Members) > 0 {
		return false
	}
	c.once(e, w.service, corev1.EventTypeWarning, reasonNoNodes, "There are no available nodes for LoadBalancer")
	return true
}
