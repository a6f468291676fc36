package registration

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// one keeps one of the two configurations.
type one struct {
	opts     *Options
	pace     pace
	metrics  *metrics
	api      api
	kind     webhooks.Type
	recorder record.EventRecorder
	logger   klog.Logger
	// repairs limits what is done against other writers. additions is for CAs of this replica's that
	// are missing, which must not wait until that fight is over.
	repairs, additions *rate.Limiter
	informer           cache.SharedIndexInformer
	// news has an element when the watch brought something.
	news chan struct{}
	// report tells the Keeper what its readiness waits for; nil for nothing.
	report func(bundle []byte, err error)

	// What only run touches.
	wanted   *configuration // but for the CAs
	bundle   []byte         // as CABundle returned it last
	trust    trust
	failures int
	said     string // the last thing that was logged as wrong
	settled  string // resourceVersion of what the API server makes of the last write

	mu    sync.Mutex // the watch observes
	judge judge
}

func (k *Keeper) one(t webhooks.Type, recorder record.EventRecorder, logger klog.Logger) *one {
	o := &one{
		opts: &k.opts, pace: k.pace, metrics: k.metrics, api: apiOf(k.opts.Client, t), kind: t, recorder: recorder,
		logger: logger.WithValues("kind", kindName(t), "name", Name), news: make(chan struct{}, 1),
		report:  k.reporter(t),
		repairs: rate.NewLimiter(rate.Every(k.pace.refill), k.pace.burst), additions: rate.NewLimiter(rate.Every(k.pace.refill), k.pace.burst), judge: judge{standDown: k.pace.standDown},
		trust: newTrust(k.pace.standDown, k.pace.grace),
	}
	o.want()
	o.metrics.upToDate.WithLabelValues(kindName(t)).Set(0)
	return o
}

// watch makes o learn of every change through factory's informer, which is not started yet.
func (o *one) watch(factory informers.SharedInformerFactory) error {
	o.informer = o.api.informer(factory)
	err := o.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.wrong(explain("watch", kindName(o.kind), err))
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return err
	}
	_, err = o.informer.AddEventHandler(handler(o.api, func(c *configuration) {
		o.mu.Lock()
		o.judge.observe(c, time.Now())
		o.mu.Unlock()
		select {
		case o.news <- struct{}{}:
		default:
		}
	}))
	return err
}

// run looks at the configuration whenever there is news, until ctx ends.
func (o *one) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.news:
		case <-timer.C:
		}
		timer.Reset(o.sync(ctx))
	}
}

// sync does what is to be done now and returns when to look again if there is no news. It
// asks the API server for nothing while all is as wanted.
func (o *one) sync(ctx context.Context) time.Duration {
	act := o.keep
	if o.opts.Mode == Remove {
		act = o.removeIt
	}
	again, err := act(ctx)
	if apierrors.IsConflict(err) {
		o.logger.V(4).Info("Another replica was first with the webhook configuration", "reason", err.Error())
		return 0
	}
	if err != nil && ctx.Err() == nil {
		o.mu.Lock()
		o.wrong(err)
		o.mu.Unlock()
		o.failures = min(o.failures+1, 4) // sooner than pace.grace ends
		return o.pace.look << o.failures
	}
	o.failures = 0
	return again
}

// live returns the configuration that the watch has brought; nil when there is none.
func (o *one) live() *configuration {
	obj, exists, err := o.informer.GetStore().GetByKey(Name)
	if err != nil || !exists {
		return nil
	}
	return o.api.from(obj)
}

// get reads the configuration afresh; nil when there is none.
func (o *one) get(ctx context.Context) (*configuration, error) {
	live, err := o.api.get(ctx, Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, explain("get", kindName(o.kind), err)
}

// wait waits for this replica's turn; it reports whether ctx has not ended.
func (o *one) wait(ctx context.Context) bool {
	timer := time.NewTimer(rand.N(o.pace.spread + 1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// wrong counts err, and logs it if it is not what was logged last. The caller holds mu.
func (o *one) wrong(err error) {
	o.metrics.failures.WithLabelValues(kindName(o.kind)).Inc()
	if o.said != err.Error() {
		o.said = err.Error()
		o.logger.Error(err, "Webhooks could not be registered; it is tried again")
	}
}

// warn logs the message, and makes it an event of c, unless it was the last one.
func (o *one) warn(c *configuration, reason, message string) {
	o.mu.Lock()
	again := o.said == message
	o.said = message
	o.mu.Unlock()
	if !again {
		o.logger.Info("Webhook configuration is not as wanted", "reason", reason, "message", message)
		o.event(c, corev1.EventTypeWarning, reason, message)
	}
}

// event makes an event of c; nil for one that is not there.
func (o *one) event(c *configuration, kind, reason, message string) {
	ref := &corev1.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kindName(o.kind), Name: Name}
	if c != nil {
		ref.UID, ref.ResourceVersion = c.UID, c.ResourceVersion
	}
	o.recorder.Event(ref, kind, reason, message)
}
