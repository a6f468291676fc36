package leader

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Lock is a leader election lock that knows when it was renewed last. A leader that
// neither renews nor notices that it does not (its renewing goroutine hangs) is unhealthy.
// It also knows what runs under the lease. A nil lock stands for no leader election.
type Lock struct {
	resourcelock.Interface
	// tolerance is how long after the last renewal a leader counts as healthy.
	tolerance time.Duration
	now       func() time.Time

	mu      sync.Mutex
	leading bool
	renewed time.Time
	holder  string // of the lease, when it was read or written last
	acting  int    // how many of what needs the lease have not ended
}

// watchGrace is how much longer than the lease a leader may take before it is unhealthy.
const watchGrace = 20 * time.Second

func newLock(lock resourcelock.Interface, lease time.Duration) *Lock {
	return &Lock{Interface: lock, tolerance: lease + watchGrace, now: time.Now}
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.mu.Lock()
		l.holder = r.HolderIdentity
		l.mu.Unlock()
	}
	return r, raw, err
}

// Holder returns who held the lease when this replica saw it last, empty while it has not, and whether this replica leads,
// as it does without leader election.
func (l *Lock) Holder() (identity string, leads bool) {
	if l == nil {
		return "", true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder, l.leading && l.holder == l.Identity()
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Create(ctx, r))
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Update(ctx, r))
}

func (l *Lock) note(r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.mu.Lock()
		l.holder = r.HolderIdentity
		l.leading, l.renewed = r.HolderIdentity == l.Identity(), l.now()
		l.mu.Unlock()
	}
	return err
}

// Check is a healthz.Checker.
func (l *Lock) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := l.now().Sub(l.renewed); l.leading && age > l.tolerance {
		return fmt.Errorf("this replica leads, but has not renewed its lease for %s", age.Round(time.Second))
	}
	return nil
}

// Guarding returns r, noted as acting while it runs if it needs the lease.
func (l *Lock) Guarding(r manager.Runnable) manager.Runnable {
	if l == nil || !NeedsLease(r) {
		return r
	}
	return guarded{Runnable: r, lock: l}
}

// guarded is a runnable that needs the lease.
type guarded struct {
	manager.Runnable
	lock *Lock
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (guarded) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (g guarded) Start(ctx context.Context) error {
	g.lock.act(1)
	defer g.lock.act(-1)
	return g.Runnable.Start(ctx)
}

func (l *Lock) act(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acting += n
}

// releaseTimeout bounds the attempt to give the lease up.
const releaseTimeout = 5 * time.Second

// Release gives the lease up, if this replica holds it and nothing acts under it any more:
// otherwise it must run out, or another replica would act at the same time. The election
// must have ended. Electors do this themselves (ReleaseOnCancel), but also when they have
// lost the lease, and before they say so: controllers would still run when another replica
// takes the released lease, and while an API server that hangs is asked to take it back.
func (l *Lock) Release(ctx context.Context) {
	if l == nil {
		return
	}
	l.mu.Lock()
	held, acting := l.leading, l.acting
	l.mu.Unlock()
	logger := klog.FromContext(ctx).WithValues("lease", l.Describe())
	if !held {
		return
	}
	if acting > 0 {
		logger.Info("The lease is left to run out, as something still acts under it")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	// The last renewal may have been carried out although its answer was not awaited.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, _, err := l.Get(ctx)
		if err != nil || current.HolderIdentity != l.Identity() {
			return err
		}
		now := metav1.NewTime(l.now())
		return l.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: current.LeaderTransitions})
	})
	if err != nil {
		logger.Info("The lease is left to run out, as it could not be given up", "reason", err.Error())
		return
	}
	logger.V(2).Info("The lease is given up")
}
