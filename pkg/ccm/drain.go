package ccm

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// draining is a runnable of every replica that may end in its own time. When the lease is
// lost, controller-runtime's manager waits for nothing, which is right for what acts under
// the lease; but the webhooks of this replica need no lease, and must not be cut off.
type draining struct {
	manager.Runnable
	started atomic.Bool
	ended   chan struct{}
}

func newDraining(r manager.Runnable) *draining {
	return &draining{Runnable: r, ended: make(chan struct{})}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*draining) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (d *draining) Start(ctx context.Context) error {
	d.started.Store(true)
	defer close(d.ended)
	return d.Runnable.Start(ctx)
}

// awaitDrained waits until all that were started have ended, timeout at most. Their context
// must have ended.
func awaitDrained(ctx context.Context, all []*draining, timeout time.Duration) {
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

// needsLease reports whether r is to run on the leader only.
func needsLease(r manager.Runnable) bool {
	e, ok := r.(manager.LeaderElectionRunnable)
	return !ok || e.NeedLeaderElection()
}
