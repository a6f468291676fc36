package ccm

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// locks are the leases that guard controllers; nil where none is needed.
type locks struct{ main, second *watchedLock }

func (m *Manager) locks() (locks, error) {
	main, err := m.lock(m.opts.Component.Generic.LeaderElection.ResourceName)
	if err != nil || m.migration.lease == "" {
		return locks{main: main}, err
	}
	second, err := m.lock(m.migration.lease)
	return locks{main: main, second: second}, err
}

// lock makes the lock on the lease name; nil where no leader election is needed.
func (m *Manager) lock(name string) (*watchedLock, error) {
	l := m.opts.Component.Generic.LeaderElection
	if !l.LeaderElect || !m.watches() || m.opts.DryRun {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("identity for the leader election: %w", err)
	}
	config := named(m.config, "leader-election")
	config.Timeout = max(l.RenewDeadline.Duration/2, time.Second)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the leader election: %w", err)
	}
	lock, err := resourcelock.New(l.ResourceLock, l.ResourceNamespace, name, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", l.ResourceNamespace, name, err)
	}
	return newWatchedLock(lock, l.LeaseDuration.Duration), nil
}

// electorConfig is an election's configuration without its callbacks. The elector does not
// give the lease up, see watchedLock.release.
func (o *Options) electorConfig(lock *watchedLock, name string) leaderelection.LeaderElectionConfig {
	l := o.Component.Generic.LeaderElection
	return leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name,
		LeaseDuration: l.LeaseDuration.Duration, RenewDeadline: l.RenewDeadline.Duration, RetryPeriod: l.RetryPeriod.Duration,
	}
}
