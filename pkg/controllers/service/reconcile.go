package service

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

const operationDelete = "delete"

// sync does what is to be done for one Service now. It returns after how long the Service
// is to be looked at again by itself; zero for when something changes.
func (c *Controller) sync(ctx context.Context, key string) time.Duration {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Not the key of a Service", "key", key)
		return 0
	}
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "service", klog.KRef(name.Namespace, name.Name)))
	ctx, span := tracing.Start(ctx, "service sync")
	defer span.End()
	span.Set(tracing.Service, key)
	e := c.records.get(key)
	read, err := c.services.Services(name.Namespace).Get(name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.vanished(ctx, key, e)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot read the Service")
		return firstRetry
	}
	service := newest(read, e.latest)
	if e.service != nil && e.service.UID != service.UID {
		// Deleted and made anew, and we have not seen it gone.
		if again := c.vanished(ctx, key, e); again > 0 {
			return again
		}
		e = c.records.get(key)
	}
	return c.decide(ctx, key, e, service)
}

// decide does what a Service's state asks for.
func (c *Controller) decide(ctx context.Context, key string, e *entry, service *corev1.Service) time.Duration {
	var made *corev1.Service
	if e.made {
		made = e.service
	}
	turn := c.claims.Turn(service, made)
	switch turn {
	case lb.Replace: // the type was changed away and back
		if again := c.remove(ctx, key, e, cmp.Or(made, service), false); again > 0 {
			return again
		}
		e = c.records.get(key)
	case lb.Remove:
		return c.remove(ctx, key, e, service, true)
	case lb.Leave:
		c.leave(e, service)
	case lb.Strand:
		c.once(e, service, reasonWarning, fmt.Sprintf(
			"The load balancer is not deleted: the finalizer %q is that of a class which this cloud's configuration has no longer: "+
				"add the class again, or delete the load balancer and the finalizer yourself", c.claims.Stranded(service)))
	case lb.Nothing:
		if service != e.latest { // else the informer is behind
			c.records.drop(key)
		}
	case lb.Serve:
	}
	if turn != lb.Serve && turn != lb.Replace {
		return 0
	}
	class, _ := c.Classes.Of(service)
	return c.ensure(ctx, e, service, class)
}

// leave leaves a Service to others. What was made for it before one of its annotations said so stays as it is, so that nobody is cut
// off before the others serve, and goes with the Service.
func (c *Controller) leave(e *entry, service *corev1.Service) {
	e.watching.Store(nil)
	if e.made {
		c.once(e, service, reasonWarning, fmt.Sprintf(
			"By its annotations the Service is %s's now. The load balancer that it has had stays, without changes of Nodes, until the Service is deleted",
			c.Classes.Elsewhere(service)))
		return
	}
	e.service = service
	if class := service.Spec.LoadBalancerClass; class != nil && c.Classes.Misspelled(*class) {
		c.once(e, service, reasonWarning, fmt.Sprintf(
			"spec.loadBalancerClass %q is no class of this cloud's configuration, nothing is done for it: use one of %s",
			*service.Spec.LoadBalancerClass, strings.Join(c.Classes.All(), ", ")))
	}
}

// vanished cleans up after a Service that is gone, also when it had no finalizer.
func (c *Controller) vanished(ctx context.Context, key string, e *entry) time.Duration {
	if !e.made {
		c.records.drop(key)
		return 0
	}
	klog.FromContext(ctx).V(2).Info("The Service has gone before its load balancer")
	again := c.remove(ctx, key, e, e.service, false)
	if again == 0 {
		c.records.drop(key) // nothing will be heard of it any more
	}
	return again
}

// remove deletes the load balancer of service and then, if release, what makes the Service
// ours. Afterwards its entry is a new one.
func (c *Controller) remove(ctx context.Context, key string, e *entry, service *corev1.Service, release bool) time.Duration {
	f := failure{service, operationDelete, plan{rest: operationDelete}, reasonFailed, "Error syncing load balancer: failed to delete load balancer"}
	if wait := c.holdBack(e, f.plan); wait > 0 {
		return wait
	}
	e.done, e.made, e.service = nil, true, service
	e.watching.Store(nil)
	c.once(e, service, reasonDeleting, "Deleting load balancer")
	klog.FromContext(ctx).V(2).Info("Deleting load balancer")
	// Always, whether or not there is one: what was made beside it goes, too.
	hint := c.claims.Hint(service)
	if err := cloud.IgnoreNotFound(c.LoadBalancers.Delete(ctx, hint)); err != nil {
		return c.failed(ctx, e, f, err)
	}
	if release {
		if err := c.release(ctx, e, service); err != nil && !apierrors.IsNotFound(err) {
			f.doing = "Error syncing load balancer: failed to remove load balancer cleanup finalizer"
			return c.failed(ctx, e, f, err)
		}
	}
	c.count(operationDelete, resultDone)
	c.Recorder.Event(service, corev1.EventTypeNormal, reasonDeleted, "Deleted load balancer")
	c.records.drop(key)
	next := c.records.get(key)
	next.latest = e.latest
	if asked := e.asked.Load(); asked != nil && lb.Wants(service) {
		next.asked.CompareAndSwap(nil, asked)
	}
	return 0
}

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
		c.once(e, w.service, reasonEnsuring, "Ensuring load balancer")
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
		c.Recorder.Event(w.service, corev1.EventTypeNormal, reasonEnsured, ensuredText(status))
	}
	return c.untilVerify(e)
}

// announce publishes what is known of a load balancer that is not done yet, in one write. Addresses
// that are there serve already; those that the Service shows stay where there are none.
func (c *Controller) announce(ctx context.Context, e *entry, service *corev1.Service, w *wish, status *cloud.LoadBalancerStatus) {
	c.warnOnce(e, service, status.Warnings)
	_, err := c.patch(ctx, e, service, func(s *corev1.Service) {
		if !hasAnnotations(s, status.Annotations) {
			s.Annotations = overlay(s.Annotations, status.Annotations)
		}
		if len(status.Ingress) > 0 && !lb.SameIngress(s.Status.LoadBalancer.Ingress, status.Ingress) {
			s.Status.LoadBalancer.Ingress = status.Ingress
		}
	})
	if err != nil { // the next attempt says it again
		klog.FromContext(ctx).Error(err, "Cannot publish what is known of the load balancer")
		return
	}
	w.plan = c.planWith(w, status)
	e.about = w.plan.rest
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
	c.once(e, w.service, reasonNoNodes, "There are no available nodes for LoadBalancer")
	return true
}

// A Service that was served once is always kept up with the Nodes: also while its wish is not valid,
// or the cloud does not take it, its load balancer, which stays as it is otherwise, gets the members.

// refused is failed for an attempt after which the members are to follow the Nodes all the same.
func (c *Controller) refused(ctx context.Context, e *entry, f failure, w wish, err error) time.Duration {
	again := c.failed(ctx, e, f, err)
	if e.refused = isRefusal(err); !e.refused {
		return again
	}
	return c.follow(ctx, e, w, again)
}

// isRefusal reports whether an attempt failed for what the wish is, rather than for a state that the
// next attempt may not meet.
func isRefusal(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindQuota, cloud.KindFailed:
		return true
	}
	return false
}

// follow gives the members to the load balancer of a Service whose plan was refused, once. It
// returns after how long the Service is to be looked at again: again, unless the members have to wait, for which that may be too long.
func (c *Controller) follow(ctx context.Context, e *entry, w wish, again time.Duration) time.Duration {
	if !e.refused || e.followed == w.plan || !isServed(w.service) || ctx.Err() != nil {
		return again
	}
	const operation = "update_members"
	spec := *w.spec
	spec.Frozen, spec.Verify = true, false
	klog.FromContext(ctx).V(2).Info("Updating the members of a load balancer that is not as it shall be", "members", len(spec.Members))
	switch err := c.LoadBalancers.UpdateMembers(ctx, &spec); {
	case err == nil:
		e.followed, e.unfollowed, e.waiting = w.plan, 0, time.Time{}
		c.count(operation, resultDone)
	case cloud.IsNotFound(err): // there is none
		e.followed, e.unfollowed = w.plan, 0
	case isWaiting(err):
		c.count(operation, resultWaiting)
		return min(again, max(e.patience(c.Clock.Now(), err), firstRetry))
	default:
		c.count(operation, resultFailed)
		e.unfollowed++
		again = min(again, afterFailures(e.unfollowed))
		klog.FromContext(ctx).Error(err, "Cannot update the members of a load balancer that is not as it shall be", "again", again)
	}
	return again
}

// isServed reports whether the Service has published a load balancer.
func isServed(service *corev1.Service) bool { return len(service.Status.LoadBalancer.Ingress) > 0 }
