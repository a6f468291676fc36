package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// Locks are the leases that guard controllers; nil where none is needed.
type Locks struct {
	Main, Second *Lock

	election  componentbaseconfig.LeaderElectionConfiguration
	migration migration
}

// NewLocks makes the locks that the options ask for, on leases at api. The leader migration's configuration, which
// it reads, is in o then.
func NewLocks(o *options.Options, api *rest.Config) (Locks, error) {
	l := Locks{election: o.Component.Generic.LeaderElection}
	var err error
	if l.migration, err = loadMigration(o); err != nil {
		return Locks{}, err
	}
	if !l.election.LeaderElect || !o.RunsControllers() || o.DryRun {
		return l, nil
	}
	if l.Main, err = l.lock(api, l.election.ResourceName); err != nil || l.migration.lease == "" {
		return l, err
	}
	l.Second, err = l.lock(api, l.migration.lease)
	return l, err
}

// lock makes the lock on the lease name.
func (l Locks) lock(api *rest.Config, name string) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("identity for the leader election: %w", err)
	}
	config := apiclient.Named(api, "leader-election")
	config.Timeout = max(l.election.RenewDeadline.Duration/2, time.Second)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the leader election: %w", err)
	}
	lock, err := resourcelock.New(l.election.ResourceLock, l.election.ResourceNamespace, name, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", l.election.ResourceNamespace, name, err)
	}
	return newLock(lock, l.election.LeaseDuration.Duration), nil
}

// SecondLease is the name of the second lease, empty for none.
func (l Locks) SecondLease() string { return l.migration.lease }

// Under returns those of controllers that run under the main lease, or under the second one.
func (l Locks) Under(second bool, controllers []string) []string {
	return l.migration.under(second, controllers)
}

// Campaign runs lead while this replica holds the second lease, and returns an error when it loses that. When ctx has
// ended, ended is called after lead, before the lease is given up. The elector does not give it up, see Lock.Release.
func (l Locks) Campaign(ctx context.Context, lead func(context.Context) error, ended func()) error {
	// The lease is given up after the controllers' end, not at the same time.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	started, result := make(chan struct{}), make(chan error, 1)
	lost := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l.Second, Name: l.migration.lease,
		LeaseDuration: l.election.LeaseDuration.Duration, RenewDeadline: l.election.RenewDeadline.Duration, RetryPeriod: l.election.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				close(started)
				err := lead(runCtx)
				stop()
				if ctx.Err() != nil {
					ended()
				}
				result <- err
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lease of the leader migration: %w", err)
	}
	go func() {
		defer close(lost)
		elector.Run(leaseCtx)
	}()
	select {
	case <-runCtx.Done():
	case <-lost:
		return errors.New("the lease of the leader migration was lost")
	}
	select {
	case <-started:
		err = <-result
	default:
	}
	release()
	<-lost
	if ctx.Err() != nil { // ended has returned: nothing acts any more
		l.Second.Release(ctx)
	}
	return err
}
