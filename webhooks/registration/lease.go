package registration

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// leaseName is the name of the Lease, in the Service's namespace, whose holder writes.
const leaseName = "isthmus-webhook-registration"

// contend runs for the lease while this replica serves, until ctx ends: one that does not serve
// registers nothing, and must not keep the others from it.
func (k *Keeper) contend(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("identity for lease %s: %w", leaseName, err)
	}
	config := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: k.opts.Service.Namespace, Name: leaseName},
			Client:     k.opts.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + rand.Text()},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: k.pace.retry,
		ReleaseOnCancel: true, Name: leaseName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if k.ready(ctx) != nil {
			return
		}
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Webhooks are not registered by this replica")
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) {
				if k.ready(ctx) != nil {
					cancel()
				}
			}, k.pace.look)
		})
		k.elector.Store(elector)
		elector.Run(ctx)
		k.elector.Store(nil)
		cancel()
		watch.Wait()
	}, k.pace.look)
	return nil
}

// ready returns nil while this replica serves, or has nothing to serve.
func (k *Keeper) ready(ctx context.Context) error {
	if k.opts.Ready == nil {
		return nil
	}
	return k.opts.Ready(ctx)
}

// holds reports whether this replica writes.
func (k *Keeper) holds() bool {
	elector := k.elector.Load()
	return elector != nil && elector.IsLeader()
}
