package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

// reconciler keeps one of the two configurations.
type reconciler struct {
	*Keeper
	api      api
	watched  *watched.Object
	kind     webhooks.Type
	rendered *configuration // what is wanted but for the CAs; nil for nothing

	// What only run uses.
	recorder record.EventRecorder
	logger   klog.Logger
	// repairs limits what is done against other writers. additions is for CAs of this replica's that
	// are missing, which must not wait until that fight is over.
	repairs, additions *rate.Limiter
	kept               bool // it has been as wanted

	mu   sync.Mutex
	said string // the last thing that was logged as wrong
}

// run looks at the configuration whenever there is news, and from time to time, until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	r.repairs, r.additions = rate.NewLimiter(rate.Every(r.pace.refill), r.pace.burst), rate.NewLimiter(rate.Every(r.pace.refill), r.pace.burst)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.watched.Changed:
		case <-timer.C:
		}
		timer.Reset(r.sync(ctx))
	}
}

// problem is what somebody may have to do something about: it becomes an event.
type problem struct{ reason, message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

// sync does what is to be done now and returns when to look again if there is no news. It
// asks the API server for nothing while all is as wanted.
func (r *reconciler) sync(ctx context.Context) time.Duration {
	err := r.reconcile(ctx)
	var p *problem
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, watched.ErrNotRead):
	case apierrors.IsConflict(err):
		r.logger.V(4).Info("Another replica was first with the webhook configuration", "reason", err.Error())
		return 0
	case errors.As(err, &p):
		r.failed(p.reason, p.message)
		if r.news(p.message) {
			r.logger.Info("Webhook configuration is not as wanted", "reason", p.reason, "message", p.message)
			r.event(nil, corev1.EventTypeWarning, p.reason, p.message)
		}
	default:
		r.metrics.failures.WithLabelValues(kindName(r.kind)).Inc()
		r.failed("RegistrationFailed", err.Error())
		if r.news(err.Error()) {
			r.logger.Error(err, "Webhooks could not be registered; it is tried again")
		}
		return 5 * r.pace.look
	}
	return r.pace.look
}

// failed tells who wants to know why the configuration is not as wanted.
func (r *reconciler) failed(reason, message string) {
	if r.opts.Failed != nil {
		r.opts.Failed(strings.ToLower(kindName(r.kind))+"/"+Name, reason, message)
	}
}

// reconcile brings the configuration to what is planned, of what it is now.
func (r *reconciler) reconcile(ctx context.Context) error {
	live, err := r.live()
	if err != nil {
		return err
	}
	want := replica{r.rendered, r.own(), r.holds()}
	c, why := want.plan(live, time.Now())
	if why.writes() { // by what may be old
		if live, err = r.api.get(ctx); err != nil {
			return err
		}
		c, why = want.plan(live, time.Now())
	}
	up := 0.0
	if why == asWanted {
		up = 1
	}
	r.metrics.upToDate.WithLabelValues(kindName(r.kind)).Set(up)
	switch why {
	case asWanted:
		r.kept = true
		r.news("")
	case notOurs:
		return &problem{reasonNotOurs, errNotOurs(kindName(r.kind)).Error()}
	case notHeld:
		if r.news(string(why)) {
			r.logger.V(2).Info("Webhook configuration is not as this replica wants it, but another one writes it", "lease", leaseName)
		}
	default:
		if err := r.hindrance(ctx, live, c, why); err != nil {
			return err
		}
		return r.write(ctx, live, c, why)
	}
	return nil
}

// own returns the CAs that this replica's certificates are of; those that have expired only if all
// have, as it seems by a clock that runs ahead.
func (k *Keeper) own() sets.Set[string] {
	if k.opts.CABundle == nil {
		return nil
	}
	bundle := k.opts.CABundle()
	if valid := authorities(bundle, time.Now()); len(valid) > 0 {
		return valid
	}
	return authorities(bundle, time.Time{})
}

// live returns the configuration that the watch has brought; nil when there is none.
func (r *reconciler) live() (*configuration, error) {
	obj, err := r.watched.Get()
	if found, ok := obj.(runtime.Object); ok {
		return converted(found, &configuration{}), nil
	}
	return nil, err
}

// untrusted says that webhooks are registered, but requests that come to this replica fail.
func (r *reconciler) untrusted() error {
	live, err := r.live()
	if err != nil {
		return fmt.Errorf("%s %s has not been looked at yet: %w", kindName(r.kind), Name, err)
	}
	if !lacks(live, r.own()) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = fmt.Errorf("%s %s does not have the CA of this replica's certificate yet", kindName(r.kind), Name)
	if r.said != "" {
		err = fmt.Errorf("%w: %s", err, r.said)
	}
	return err
}

// news reports whether message is not what was said last, and notes it.
func (r *reconciler) news(message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.said != message
	r.said = message
	return news
}

// event makes an event of c; nil for one that is not there.
func (r *reconciler) event(c *configuration, kind, why, message string) {
	ref := &corev1.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kindName(r.kind), Name: Name}
	if c != nil {
		ref.UID, ref.ResourceVersion = c.UID, c.ResourceVersion
	}
	r.recorder.Event(ref, kind, why, message)
}
