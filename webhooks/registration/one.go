package registration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// repairs limits what is done against other writers. adds is for CAs of this replica's that
	// are missing, which must not wait until that fight is over.
	repairs, adds *rate.Limiter
	informer      cache.SharedIndexInformer
	// news has an element when the watch brought something.
	news chan struct{}

	// What only run touches.
	wanted   *configuration // but for the CAs
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
		repairs: rate.NewLimiter(rate.Every(k.pace.refill), k.pace.burst), adds: rate.NewLimiter(rate.Every(k.pace.refill), k.pace.burst), judge: judge{standDown: k.pace.standDown},
		wanted: render(&k.opts, t, nil), trust: newTrust(k.pace.standDown, k.pace.grace),
	}
	o.judge.want(fingerprint(o.wanted))
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
		o.failures = min(o.failures+1, 6)
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

// keep puts the configuration right.
func (o *one) keep(ctx context.Context) (time.Duration, error) {
	o.ownCAs()
	live := o.live()
	if live != nil && live.ResourceVersion == o.settled {
		return o.pace.look, nil
	}
	if verdict, _, _ := o.decide(live); !verdict.writes() {
		return o.rest(live, verdict), nil
	}
	return o.write(ctx)
}

// ownCAs notes which CAs this replica's certificates are of.
func (o *one) ownCAs() {
	if o.opts.CABundle == nil {
		return
	}
	if cas := authorities(o.opts.CABundle()); !slices.Equal(cas, o.trust.own) {
		o.trust.own, o.settled = cas, ""
	}
}

// decide returns what to do about live, nil for none, what to write, and with which stamp.
func (o *one) decide(live *configuration) (verdict, *configuration, stamp) {
	now := time.Now()
	o.mu.Lock()
	v, next := o.judge.judge(live, now)
	o.mu.Unlock()
	o.trust.observe(live, now)
	content := o.wanted
	if (v == asWanted || v == leave) && live != nil && stampOf(live) != (stamp{}) && !o.trust.right(live, now) {
		if v == leave { // the CAs are not a matter of who prevails
			content = o.wanted.DeepCopy()
			content.Annotations, content.Webhooks = nil, live.Webhooks
		}
		v = change
		if _, ok := standingCAs(live); !ok {
			v = repair
		}
		next = stampOf(live)
	}
	cas, leaving := o.trust.wanted(now)
	return v, trusting(content, cas, leaving), next
}

// rest says why nothing is written, if that is worth saying.
func (o *one) rest(live *configuration, v verdict) time.Duration {
	up := 0.0
	switch v {
	case asWanted:
		up = 1
		o.mu.Lock()
		o.said = ""
		o.mu.Unlock()
	case notOurs:
		o.warn(live, "NotOurs", errNotOurs(kindName(o.kind)).Error())
	case leave:
		o.warn(live, "OtherReplica", "another replica has registered other webhooks later than this one, which leaves it at that for "+o.pace.standDown.String()+
			": harmless during a rollout; otherwise give all replicas the same flags and the same certificate source")
	}
	o.metrics.upToDate.WithLabelValues(kindName(o.kind)).Set(up)
	return o.pace.look
}

// write writes what is wanted, unless another replica does so first or it happens too often.
func (o *one) write(ctx context.Context) (time.Duration, error) {
	o.metrics.upToDate.WithLabelValues(kindName(o.kind)).Set(0)
	if err := o.opts.Ready(ctx); err != nil {
		o.logger.V(4).Info("Webhooks are registered once this replica serves", "reason", err.Error())
		return o.pace.look, nil
	}
	if len(o.trust.own) == 0 && o.opts.URL == "" && o.opts.InjectCAFrom == "" && len(o.wanted.Webhooks) > 0 {
		o.warn(nil, "NoCA", "the certificate comes without its CA, and no API server trusts one for a Service unasked: "+
			"put the CA beside it as ca.crt; webhooks are registered then")
		return o.pace.look, nil
	}
	if !o.wait(ctx) {
		return 0, nil
	}
	live, err := o.get(ctx)
	if err != nil {
		return 0, err
	}
	verdict, wanted, next := o.decide(live)
	if !verdict.writes() {
		return o.rest(live, verdict), nil
	}
	if reached, err := o.reached(ctx); err != nil || !reached {
		return 2 * o.pace.look, err
	}
	by := lastWriter(live)
	if lacks := o.trust.lacks(live, time.Now()); (!lacks || !o.adds.Allow()) && !o.repairs.Allow() {
		o.warn(live, "RepairLimited", "something keeps changing or deleting this configuration (other writer: "+by+"): it is put right once in "+o.pace.refill.String()+" only; find out what it is and stop it")
		return o.pace.look, nil
	}
	now, err := apply(ctx, o.api, wanted, live, next)
	if now != nil {
		o.mu.Lock()
		o.judge.observe(now, time.Now())
		o.mu.Unlock()
	}
	if errors.Is(err, errKept) {
		o.settled = now.ResourceVersion
	}
	if err != nil {
		return 0, err
	}
	o.metrics.writes.WithLabelValues(kindName(o.kind), string(verdict)).Inc()
	o.logger.Info("Webhooks registered", "reason", string(verdict), "otherWriter", by, "webhooks", len(now.Webhooks), "stamp", next.String())
	o.event(now, corev1.EventTypeNormal, "Registered", "webhook configuration "+string(verdict)+"; other writer: "+by)
	return o.pace.look, nil
}

// reached reports whether the Service leads to a replica: this one is ready a little before
// that, and until then policy Fail would refuse requests.
func (o *one) reached(ctx context.Context) (bool, error) {
	if o.opts.URL != "" || !fails(o.wanted) {
		return true, nil
	}
	s := o.opts.Service
	list, err := o.opts.Client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name,
	})
	if err != nil {
		return false, fmt.Errorf("list the EndpointSlices of Service %s/%s, to which policy Fail is to lead: %w; apply manifests/components/webhook-auto", s.Namespace, s.Name, err)
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true, nil
			}
		}
	}
	o.warn(nil, "NoEndpoint", fmt.Sprintf("Service %s/%s leads to no ready replica yet: with policy Fail, webhooks are registered once it does", s.Namespace, s.Name))
	return false, nil
}

// fails reports whether a webhook of c has policy Fail.
func fails(c *configuration) bool {
	return slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return *w.FailurePolicy == admissionregistrationv1.Fail
	})
}

// removeIt removes the configuration whenever it is there.
func (o *one) removeIt(ctx context.Context) (time.Duration, error) {
	live := o.live()
	if live != nil && !isOurs(live) {
		return o.rest(live, notOurs), nil
	}
	if live == nil {
		return o.rest(nil, asWanted), nil
	}
	if !o.wait(ctx) {
		return 0, nil
	}
	live, err := o.get(ctx)
	if err != nil || live == nil || !isOurs(live) {
		return o.pace.look, err
	}
	if !o.repairs.Allow() {
		o.warn(live, "RemovalLimited", "something keeps making this configuration again: it is removed once in "+o.pace.refill.String()+" only; end what was started with --webhook-registration=auto")
		return o.pace.look, nil
	}
	if err := remove(ctx, o.api, render(NewOptions(), o.kind, nil), live); err != nil {
		return 0, err
	}
	o.metrics.writes.WithLabelValues(kindName(o.kind), "removed").Inc()
	o.logger.Info("Webhook configuration removed")
	return o.pace.look, nil
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
