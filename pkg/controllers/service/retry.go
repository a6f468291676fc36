package service

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// firstRetry and lastRetry bound the wait after a failure that may pass.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
	// hopelessRetry is after how long a wish that cannot be fulfilled is tried again when
	// load balancers are not verified periodically.
	hopelessRetry = 30 * time.Minute
	// seldomRetry is the longest time, half of it the shortest, after which what somebody has to
	// mend in the cloud is tried again.
	seldomRetry = 10 * time.Minute
	// staleTries are how many attempts in a row may meet something that has changed meanwhile before
	// it counts as a failure.
	staleTries = 3
	// longestAsked bounds the wait that the cloud asks for.
	longestAsked = 10 * time.Minute
	// waitShare is the part of the time without progress so far which is waited at least.
	waitShare = 5
)

// Results of work, as a metric has them.
const (
	resultDone    = "done"
	resultWaiting = "waiting"
	resultFailed  = "failed"
)

func (c *Controller) count(operation, result string) {
	c.Metrics.syncs.WithLabelValues(operation, result).Inc()
}

// failure is an attempt that did not succeed.
type failure struct {
	service   *corev1.Service
	operation string // as a metric has it
	plan      plan
	reason    string // of the event
	doing     string // begins the event's text
}

// failed notes an attempt that failed with err, tells whom it concerns, and returns after
// how long it is made again.
func (c *Controller) failed(ctx context.Context, e *entry, f failure, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // we are ending; the next leader goes on
	}
	logger, text, result := klog.FromContext(ctx), list([]string{err.Error()}), resultFailed
	e.tried, e.hopeless = f.plan, false
	if !isWaiting(err) {
		e.waiting = time.Time{}
	}
	var wait time.Duration
	switch kind := cloud.KindOf(err); {
	case isWaiting(err):
		result = resultWaiting
		wait = e.patience(c.Clock.Now(), err)
		logger.V(2).Info("The cloud is not done yet", "operation", f.operation, "again", wait, "reason", text)
		reason := reasonEnsuring
		if f.operation == operationDelete {
			reason = reasonDeleting
		}
		if !c.told || wait > firstRetry || c.Clock.Since(e.waiting) >= firstRetry { // what is soon done is no news
			c.once(e, f.service, corev1.EventTypeNormal, reason, "The cloud is not done yet: "+text)
		}
	case kind == cloud.KindInvalid, kind == cloud.KindUnsupported:
		e.hopeless = true
		if wait = spread(c.SyncPeriod); wait <= 0 {
			wait = spread(hopelessRetry)
		}
		logger.V(2).Info("The wish cannot be fulfilled until it changes", "operation", f.operation, "again", wait, "reason", text)
		c.once(e, f.service, corev1.EventTypeWarning, f.reason, f.doing+": "+text)
	case kind == cloud.KindQuota, kind == cloud.KindFailed:
		e.failures++
		wait = spread(seldomRetry)
		logger.Error(errors.New(text), "Load balancer operation failed until somebody mends it in the cloud", "operation", f.operation, "again", wait)
		c.once(e, f.service, corev1.EventTypeWarning, f.reason, f.doing+": "+text+"; tried again every few minutes")
	case kind == cloud.KindStale && e.failures < staleTries:
		e.failures++
		result, wait = resultWaiting, firstRetry
		logger.V(2).Info("The load balancer has changed meanwhile", "operation", f.operation, "again", wait, "reason", text)
	default:
		e.failures++
		wait = afterFailures(e.failures)
		logger.Error(errors.New(text), "Load balancer operation failed", "operation", f.operation, "again", wait)
		c.once(e, f.service, corev1.EventTypeWarning, f.reason, f.doing+": "+text)
	}
	c.count(f.operation, result)
	e.notBefore = c.Clock.Now().Add(wait)
	return wait
}

// patience is how long to wait for a cloud that is not done yet: as long as it asks for, and the
// longer the longer nothing has come of it. Load balancers that stay pending for ever must not keep
// the workers from others.
func (e *entry) patience(now time.Time, err error) time.Duration {
	asked := min(cloud.RetryAfter(err), longestAsked)
	if asked <= 0 {
		asked = firstRetry
	}
	if e.waiting.IsZero() || cloud.HasProgress(err) {
		e.waiting = now
	}
	return max(asked, min(now.Sub(e.waiting)/waitShare, lastRetry))
}

// isWaiting reports whether err only says that the cloud needs time.
func isWaiting(err error) bool {
	kind := cloud.KindOf(err)
	return kind == cloud.KindRetryAfter || kind == cloud.KindThrottled
}

// holdBack returns how long the plan must not be tried yet, because it was tried in vain. A
// plan that differs is tried at once, but members alone make no failing cloud work.
func (c *Controller) holdBack(e *entry, want plan) time.Duration {
	if e.about != want.rest {
		e.about, e.said = want.rest, nil
	}
	if e.awaited.Swap(false) && !e.waiting.IsZero() {
		return 0
	}
	if e.tried.rest != want.rest || e.hopeless && e.tried != want {
		e.succeeded()
		return 0
	}
	return max(e.notBefore.Sub(c.Clock.Now()), 0)
}

// succeeded forgets attempts in vain.
func (e *entry) succeeded() {
	e.tried, e.failures, e.notBefore, e.waiting, e.hopeless, e.refused = plan{}, 0, time.Time{}, time.Time{}, false, false
}

// afterFailures is the wait after the nth failure in a row: doubled each time, with jitter.
func afterFailures(n int) time.Duration {
	wait := backoff.Doubling(firstRetry, lastRetry, n)
	return backoff.Jitter(max(wait*4/5, firstRetry), wait)
}

// spread returns a random time between half of d and d, so that what began together does
// not go on together.
func spread(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return backoff.Jitter(d/2, d)
}
