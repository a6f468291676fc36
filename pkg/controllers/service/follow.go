package service

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

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
// returns after how long the Service is to be looked at again, again unless the cloud needs time.
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
		e.followed, e.waiting = w.plan, time.Time{}
		c.count(operation, resultDone)
	case cloud.IsNotFound(err): // there is none
		e.followed = w.plan
	case isWaiting(err):
		c.count(operation, resultWaiting)
		return min(again, max(e.patience(c.Clock.Now(), err), firstRetry))
	default:
		c.count(operation, resultFailed)
		klog.FromContext(ctx).Error(err, "Cannot update the members of a load balancer that is not as it shall be")
	}
	return again
}

// isServed reports whether the Service has published a load balancer.
func isServed(service *corev1.Service) bool { return len(service.Status.LoadBalancer.Ingress) > 0 }
