package registration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

// pace is how fast a Keeper acts.
type pace struct {
	// look is how often readiness and the CA, which are in this process, are looked at.
	look time.Duration
	// retry is how often the lease is tried for, or renewed.
	retry time.Duration
	// patience is how long readiness waits for the API server to trust this replica.
	patience time.Duration
	// burst writes are made at once, and one more every refill.
	burst  int
	refill time.Duration
}

var (
	_ manager.Runnable               = (*Keeper)(nil)
	_ manager.LeaderElectionRunnable = (*Keeper)(nil)
)

// Keeper keeps the configurations as Options want them: there, or away.
type Keeper struct {
	opts    Options
	pace    pace
	metrics *metrics
	all     []*reconciler
	elector atomic.Pointer[leaderelection.LeaderElector] // nil while this replica does not run for the lease

	mu      sync.Mutex
	since   time.Time // readiness waits
	trusted bool      // and once it has, it waits no more
}

// New returns a Keeper for options that Validate has accepted, with Mode Auto or Remove.
func New(o Options) (*Keeper, error) {
	if o.Mode != Auto && o.Mode != Remove {
		return nil, fmt.Errorf("webhook registration: mode %q keeps nothing", o.Mode)
	}
	if o.Client == nil {
		return nil, errors.New("webhook registration: no client of the API server")
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("webhook registration: %w", err)
	}
	k := &Keeper{opts: o, metrics: m, pace: pace{look: time.Second, retry: 2 * time.Second, patience: 30 * time.Second, burst: 5, refill: 30 * time.Second}}
	for _, t := range []webhooks.Type{webhooks.Mutating, webhooks.Validating} {
		r := &reconciler{Keeper: k, kind: t, api: apiOf(o.Client, t)}
		r.watched = watched.New(watched.Target{Client: r.api.rest, Resource: r.api.resource, Name: types.NamespacedName{Name: Name}, Empty: r.api.empty},
			func(err error) error { return explain("watch", kindName(t), err) })
		if o.Mode == Auto {
			r.rendered = render(&k.opts, t)
		}
		k.all = append(k.all, r)
		m.upToDate.WithLabelValues(kindName(t)).Set(0)
	}
	return k, nil
}

// NeedLeaderElection is false: every replica serves the webhooks, and may register them; who does
// is decided by a lease of their own.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start keeps the configurations until ctx ends. What goes wrong is logged, counted and
// tried again: it is no reason to stop serving. At the end the configurations stay.
func (k *Keeper) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("webhook-registration")
	ctx = klog.NewContext(ctx, logger)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: k.opts.Client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "webhook-registration"})
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range k.all {
		r.recorder, r.logger = recorder, logger.WithValues("kind", kindName(r.kind), "name", Name)
		g.Go(func() error { return r.watched.Run(ctx) })
		g.Go(func() error { r.run(ctx); return nil })
	}
	g.Go(func() error { return k.contend(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("webhook registration: %w", err)
	}
	return nil
}

// Trusted is a healthz.Checker for readiness: it fails, from when this replica serves, until
// the API server trusts its certificate as far as webhooks are registered. Where that cannot be
// brought about it gives in, since the webhooks may be somebody else's matter, and so may what
// else the process does; and it fails no more once it has not.
func (k *Keeper) Trusted(req *http.Request) error {
	if k.opts.Mode != Auto || k.ready(req.Context()) != nil { // which readiness has of its own
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trusted {
		return nil
	}
	var err error
	for _, r := range k.all {
		if found := r.untrusted(); found != nil {
			err = found
		}
	}
	if err == nil {
		k.trusted = true
		return nil
	}
	if k.since.IsZero() {
		k.since = time.Now()
	}
	if waited := time.Since(k.since); waited >= k.pace.patience {
		k.trusted = true
		klog.FromContext(req.Context()).Error(err, "Ready although the API server may not trust this replica's webhook certificate", "waited", waited)
		return nil
	}
	return fmt.Errorf("webhook registration: %w", err)
}

// Away removes the configurations that are ours, once.
func Away(ctx context.Context, client kubernetes.Interface) error {
	var errs []error
	for _, t := range []webhooks.Type{webhooks.Mutating, webhooks.Validating} {
		a := apiOf(client, t)
		logger := klog.FromContext(ctx).WithValues("kind", kindName(t), "name", Name)
		errs = append(errs, retry.RetryOnConflict(retry.DefaultRetry, func() error { // others may write at the same moment
			live, err := a.get(ctx)
			switch {
			case err != nil:
				return err
			case live == nil:
				logger.Info("There is no webhook configuration to remove")
				return nil
			case !isOurs(live):
				return errNotOurs(kindName(t))
			}
			if err = a.remove(ctx, live); err == nil {
				logger.Info("Webhook configuration removed")
			}
			return err
		}))
	}
	return errors.Join(errs...)
}
