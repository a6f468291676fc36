package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// plan identifies what a load balancer shall be: members for themselves, everything else as
// rest. Both are digests: thousands of Nodes behind hundreds of Services would fill the memory.
type plan struct{ rest, members string }

// planOf identifies spec. members is the digest of its members. Neither what is published
// nor how the cloud is asked is part of it.
func planOf(spec *cloud.LoadBalancerSpec, members string) plan {
	s := *spec
	s.Members, s.Candidates, s.CurrentIngress, s.Verify = nil, nil, nil, false
	data, err := json.Marshal(s)
	if err != nil { // only a new kind of field could be the reason
		data = fmt.Appendf(nil, "%+v", s)
	}
	return plan{rest: digest(data), members: members}
}

// planWith is the plan that the Service comes back with when status is published: the annotations
// are part of it.
func (c *Controller) planWith(w *wish, status *cloud.LoadBalancerStatus) plan {
	after := *w.spec
	after.Settings, _, _ = lb.Check(overlay(w.service.Annotations, status.Annotations), c.Provider.Annotations)
	return planOf(&after, w.plan.members)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// completion is what the last Ensure that succeeded did.
type completion struct {
	plan   plan
	status *cloud.LoadBalancerStatus
}

// entry is what is known of one Service's load balancer. It belongs to the worker that has
// the key; only watching, asked and awaited are for others, too.
type entry struct {
	// service is the Service as it was last worked on; nil when it never was. Its load
	// balancer is deleted when the Service vanishes without a finalizer.
	service *corev1.Service
	// made says that there may be something in the cloud.
	made bool
	// latest is the Service as our last write left it; the informer may not have it yet.
	latest *corev1.Service

	// done is nil while the load balancer is not known to be complete.
	done *completion
	// verifyAt is when it is to be read afresh; zero for never.
	verifyAt time.Time
	// republished is when others' changes to what we publish were last undone.
	republished time.Time

	// tried is the plan of the last attempt that did not succeed, failures how many there
	// were in a row; the same plan is not tried again before notBefore.
	tried     plan
	failures  int
	notBefore time.Time
	// waiting is since when the cloud, not done yet, has made no progress; zero while it is not waited for.
	waiting time.Time
	// refused: the cloud did not take the last attempt's plan, and not for a while only.
	refused bool
	// followed is the plan whose members the load balancer was given although it is not as it
	// shall be, unfollowed how often in a row it could not be given them.
	followed   plan
	unfollowed int
	// hopeless: only a change makes the last attempt's plan succeed.
	hopeless bool
	// said are the events published for the plan whose rest is about, to tell each once.
	said  said
	about string

	watching atomic.Pointer[watch]
	// asked is when the Service was seen to become of type LoadBalancer; nil for one that was made so.
	asked atomic.Pointer[time.Time]
	// awaited: the cloud has ended the work that the last attempt waited for.
	awaited atomic.Bool
}

// records are the entries by the Services' keys.
type records struct {
	mu    sync.Mutex
	byKey map[string]*entry
}

// get returns the Service's entry, made when there is none.
func (r *records) get(key string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		e = &entry{}
		r.byKey[key] = e
	}
	return e
}

// ended notes that the cloud has ended the work that the Service with the key waits
// for, and reports whether there is one.
func (r *records) ended(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if ok {
		e.awaited.Store(true)
	}
	return ok
}

func (r *records) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}

// due reports whether the load balancer is to be read afresh.
func (e *entry) due(now time.Time) bool { return !e.verifyAt.IsZero() && !now.Before(e.verifyAt) }

// overlay returns annotations with those of set, where an empty value removes one.
func overlay(annotations, set map[string]string) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	for name, value := range set {
		if value == "" {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}

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
		if wait > firstRetry || c.Clock.Since(e.waiting) >= firstRetry { // what is soon done is no news
			c.once(e, f.service, reason, "The cloud is not done yet: "+text)
		}
	case kind == cloud.KindInvalid, kind == cloud.KindUnsupported:
		e.hopeless = true
		if wait = spread(c.SyncPeriod); wait <= 0 {
			wait = spread(hopelessRetry)
		}
		logger.V(2).Info("The wish cannot be fulfilled until it changes", "operation", f.operation, "again", wait, "reason", text)
		c.once(e, f.service, f.reason, f.doing+": "+text)
	case kind == cloud.KindQuota, kind == cloud.KindFailed:
		e.failures++
		wait = spread(seldomRetry)
		logger.Error(errors.New(text), "Load balancer operation failed until somebody mends it in the cloud", "operation", f.operation, "again", wait)
		c.once(e, f.service, f.reason, f.doing+": "+text+"; tried again every few minutes")
	case kind == cloud.KindStale && e.failures < staleTries:
		e.failures++
		result, wait = resultWaiting, firstRetry
		logger.V(2).Info("The load balancer has changed meanwhile", "operation", f.operation, "again", wait, "reason", text)
	default:
		e.failures++
		wait = afterFailures(e.failures)
		logger.Error(errors.New(text), "Load balancer operation failed", "operation", f.operation, "again", wait)
		c.once(e, f.service, f.reason, f.doing+": "+text)
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

// Reasons of events, the framework's but the last. The comments are what docs/reference/events.md says of each.
const (
	// Normal on Service: its load balancer is being made or changed; with other words, what the cloud is still busy with.
	reasonEnsuring = "EnsuringLoadBalancer"
	// Normal on Service: its load balancer is complete. The event names its ID, ARN or name in the cloud, and its addresses.
	reasonEnsured = "EnsuredLoadBalancer"
	// Normal on Service: the load balancer's members follow the Nodes.
	reasonUpdated = "UpdatedLoadBalancer"
	// Warning on Service: the members could not be changed, and it is tried again. Next: mend what the event says; the rest of the load
	// balancer serves on.
	reasonUpdateFailed = "UpdateLoadBalancerFailed"
	// Normal on Service: its load balancer is being deleted.
	reasonDeleting = "DeletingLoadBalancer"
	// Normal on Service: its load balancer is gone.
	reasonDeleted = "DeletedLoadBalancer"
	// Warning on Service: the load balancer could not be made, changed or deleted. Next: mend what the event says; it is tried again, what
	// cannot succeed only every few minutes.
	reasonFailed = "SyncLoadBalancerFailed"
	// Warning on Service: no Node may be a member. Next: look which Nodes are ready, and at the Service's node selector and the label
	// node.kubernetes.io/exclude-from-external-load-balancers.
	reasonNoNodes = "UnAvailableLoadBalancer"
	// Warning on Service: something that it asks for is served otherwise, in part or not at all. Next: change what the event names, or leave
	// it so.
	reasonWarning = "LoadBalancerWarning"
	// Warning on Service: others had changed its load balancer, and it was put right. Next: find who did, in the cloud's log of requests.
	reasonRepaired = "RepairedLoadBalancer"
)

// repeatAfter is when an event is published again although nothing has changed, so that it
// is still there when somebody looks.
const repeatAfter = 15 * time.Minute

// said are the times at which events were published.
type said map[string]time.Time

// numbers are what differs between attempts that fail for the same reason: durations, counts.
var numbers = regexp.MustCompile(`[0-9]+`)

// once publishes an event unless the same was published a short while ago for the same plan.
func (c *Controller) once(e *entry, service *corev1.Service, reason, message string) {
	kind := corev1.EventTypeWarning
	if reason == reasonEnsuring || reason == reasonDeleting {
		kind = corev1.EventTypeNormal
	}
	now, message := c.Clock.Now(), text.Line(message, mostText)
	key := reason + " " + numbers.ReplaceAllString(message, "#")
	if last, ok := e.said[key]; ok && now.Sub(last) < repeatAfter {
		return
	}
	if e.said == nil {
		e.said = said{}
	}
	for old, at := range e.said {
		if now.Sub(at) >= repeatAfter {
			delete(e.said, old)
		}
	}
	e.said[key] = now
	c.Recorder.Event(service, kind, reason, message)
}

func (c *Controller) warnOnce(e *entry, service *corev1.Service, texts []string) {
	for _, text := range texts {
		c.once(e, service, reasonWarning, text)
	}
}

// list puts texts, which may have several lines, into one line.
func list(texts []string) string {
	return text.Line(strings.ReplaceAll(strings.Join(texts, "; "), "\n", "; "), mostText)
}

// ensuredText says which load balancer is complete, and where it is reached.
func ensuredText(s *cloud.LoadBalancerStatus) string {
	out := strings.TrimSpace("Ensured load balancer " + s.ID)
	var at []string
	for _, in := range s.Ingress {
		at = append(at, cmp.Or(in.IP, in.Hostname))
	}
	if len(at) > 0 {
		out += " at " + strings.Join(at, ", ")
	}
	return text.Clip(out, mostText)
}

// mostText is how long the text of an event or a log line gets: annotations have up to 256 kB, and
// a text may repeat their values.
const mostText = 2048
