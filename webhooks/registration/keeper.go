package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// pace is how fast a Keeper acts.
type pace struct {
	// look is how often readiness and the CA, which are in this process, are looked at.
	look time.Duration
	// spread is the time over which replicas that see the same distribute themselves, so that
	// one writes and the others see that it has.
	spread time.Duration
	// standDown is how long another replica's wish is left alone, see judge.
	standDown time.Duration
	// grace is how long replicas may object to a CA's leaving, see trust.
	grace time.Duration
	// patience is how long readiness waits for the API server to trust this replica.
	patience time.Duration
	// burst writes are made at once, and one more every refill.
	burst  int
	refill time.Duration
}

func defaultPace() pace {
	return pace{look: time.Second, spread: time.Second, standDown: 10 * time.Minute, grace: time.Minute, patience: 30 * time.Second, burst: 5, refill: 30 * time.Second}
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

	mu      sync.Mutex
	reports map[webhooks.Type]report
	since   time.Time // readiness waits
	trusted bool      // and once it has, it waits no more
}

// report is what was found last about a configuration.
type report struct {
	bundle []byte // what was to be trusted then
	err    error
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
	return &Keeper{opts: o, pace: defaultPace(), metrics: m, reports: map[webhooks.Type]report{}}, nil
}

// NeedLeaderElection is false: any replica registers the webhooks, since all serve them.
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

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := namedOnly(k.opts.Client)
	var wg sync.WaitGroup
	for _, t := range []webhooks.Type{webhooks.Mutating, webhooks.Validating} {
		one := k.one(t, recorder, logger)
		if err := one.watch(factory); err != nil {
			return fmt.Errorf("webhook registration: %w", err)
		}
		wg.Go(func() { one.run(ctx) })
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	wg.Wait()
	return nil
}

// Trusted is a healthz.Checker for readiness: it fails, from when this replica serves, until
// the API server trusts its certificate as far as webhooks are registered. Where that cannot be
// brought about it gives in, since the webhooks may be somebody else's matter, and so may what
// else the process does; and it fails no more once it has not.
func (k *Keeper) Trusted(r *http.Request) error {
	if k.opts.Mode != Auto || k.opts.Ready(r.Context()) != nil { // which readiness has of its own
		return nil
	}
	bundle := k.opts.CABundle()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trusted {
		return nil
	}
	var err error
	for _, t := range []webhooks.Type{webhooks.Mutating, webhooks.Validating} {
		if found, ok := k.reports[t]; !ok || !bytes.Equal(found.bundle, bundle) {
			err = fmt.Errorf("%s %s has not been looked at yet: does the API server answer, and let this process list it", kindName(t), Name)
		} else if found.err != nil {
			err = found.err
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
		klog.FromContext(r.Context()).Error(err, "Ready although the API server may not trust this replica's webhook certificate", "waited", waited)
		return nil
	}
	return fmt.Errorf("webhook registration: %w", err)
}

// reporter takes the reports about the configuration of kind t.
func (k *Keeper) reporter(t webhooks.Type) func([]byte, error) {
	return func(bundle []byte, err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reports[t] = report{bundle, err}
	}
}

// namedOnly makes informers that ask for nothing but our configurations.
func namedOnly(client kubernetes.Interface) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	}))
}

// Away removes the configurations that are ours, once.
func Away(ctx context.Context, client kubernetes.Interface) error {
	var errs []error
	for _, t := range []webhooks.Type{webhooks.Mutating, webhooks.Validating} {
		err := away(ctx, apiOf(client, t), t)
		for range 4 { // others may write at the same moment
			if !apierrors.IsConflict(err) {
				break
			}
			err = away(ctx, apiOf(client, t), t)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func away(ctx context.Context, a api, t webhooks.Type) error {
	live, err := a.get(ctx, Name)
	switch {
	case apierrors.IsNotFound(err):
		klog.FromContext(ctx).Info("There is no webhook configuration to remove", "kind", kindName(t), "name", Name)
		return nil
	case err != nil:
		return explain("get", kindName(t), err)
	case !isOurs(live):
		return errNotOurs(kindName(t))
	}
	if err := remove(ctx, a, render(NewOptions(), t, nil), live); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Webhook configuration removed", "kind", kindName(t), "name", Name)
	return nil
}

func errNotOurs(kind string) error {
	return fmt.Errorf("%s %s exists and was not made by Isthmus (it has no label %s=%s): it stays as it is; rename or remove it, or give it the label to have it taken over",
		kind, Name, nameLabel, Name)
}

// handler calls f with each state of the configuration that the watch brings, nil for its end.
func handler(a api, f func(*configuration)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { f(a.from(obj)) },
		UpdateFunc: func(_, obj any) { f(a.from(obj)) },
		DeleteFunc: func(any) { f(nil) },
	}
}
