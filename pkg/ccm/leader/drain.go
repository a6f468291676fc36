package leader

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Draining is a runnable of every replica that may end in its own time. When the lease is
// lost, controller-runtime's manager waits for nothing, which is right for what acts under
// the lease; but the webhooks of this replica need no lease, and must not be cut off.
type Draining struct {
	manager.Runnable
	started atomic.Bool
	ended   chan struct{}
}

// NewDraining returns r as one that may end in its own time.
func NewDraining(r manager.Runnable) *Draining {
	return &Draining{Runnable: r, ended: make(chan struct{})}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Draining) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (d *Draining) Start(ctx context.Context) error {
	d.started.Store(true)
	defer close(d.ended)
	return d.Runnable.Start(ctx)
}

// AwaitDrained waits until all that were started have ended, timeout at most. Their context
// must have ended.
func AwaitDrained(ctx context.Context, all []*Draining, timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, d := range all {
		if !d.started.Load() {
			continue
		}
		select {
		case <-d.ended:
		case <-timer.C:
			klog.FromContext(ctx).Info("Not everything has ended in time", "timeout", timeout)
			return
		}
	}
}

// NeedsLease reports whether r is to run on the leader only.
func NeedsLease(r manager.Runnable) bool {
	e, ok := r.(manager.LeaderElectionRunnable)
	return !ok || e.NeedLeaderElection()
}

// EveryReplica is a manager.Runnable that needs no leadership.
type EveryReplica struct{ Run func(context.Context) error }

// Start implements manager.Runnable.
func (r EveryReplica) Start(ctx context.Context) error { return r.Run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (EveryReplica) NeedLeaderElection() bool { return false }
