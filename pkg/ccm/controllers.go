package ccm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/csitopology"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/leader"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
)

// leaderControllers are the controllers of one term of leadership and, under leader migration, the campaign for the
// second lease. They end only when no call to the cloud is under way any more, so
// that the next leader never acts at the same time.
type leaderControllers struct {
	opts      *options.Options
	config    *rest.Config
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	provider  *decorate.Provider
	cluster   cloud.Cluster
	locks     leader.Locks
	metrics   *controllersmetrics.ControllerManagerMetrics
	// serviceMetrics are the service controller's.
	serviceMetrics *service.Metrics
	// routeMetrics are the route controller's.
	routeMetrics *routes.Metrics
	// errors are kept for the status page.
	errors *status.Errors
	// topology is nil where no PersistentVolumes are labeled.
	topology *csitopology.Volumes
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*leaderControllers) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (l *leaderControllers) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core := l.informers.Core().V1()
	if !cache.WaitForCacheSync(ctx.Done(), core.Nodes().Informer().HasSynced, core.Services().Informer().HasSynced) {
		return nil
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	defer cancel()
	reports.Go(func() { l.reportHeld(ctx) })
	a := nodes.NewAdapter(ctx, l.provider, core.Nodes().Lister(), l.opts.Component.NodeLifecycleController.NodeMonitorPeriod.Duration)
	a.Failed = func(node string, err error) {
		if ctx.Err() == nil { // else it says that the term ends
			l.errors.Add("node/"+node, cloud.KindOf(err).String(), err.Error())
		}
	}
	defer a.End()
	defer cancel() // before End waits for the calls
	enabled := l.opts.EnabledControllers()
	if l.locks.Second == nil {
		return l.run(ctx, a, enabled)
	}
	migrated, others := l.locks.Under(true, enabled), l.locks.Under(false, enabled)
	logger.Info("Leader migration is on", "lease", l.locks.SecondLease(), "migrated", migrated, "notMigrated", others)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	failed := make(chan error, 2)
	wg.Go(func() {
		failed <- l.locks.Campaign(ctx, func(ctx context.Context) error { return l.run(ctx, a, migrated) }, a.End)
	})
	wg.Go(func() { failed <- l.run(ctx, a, others) })
	return <-failed
}

// reportHeld says in Events what the deletion guard holds, until ctx ends.
func (l *leaderControllers) reportHeld(ctx context.Context) {
	recorder, shutdown := l.recorder(ctx, leader.Component)
	defer shutdown()
	r := &nodes.HeldReporter{
		Held: l.provider.Nodes.Held, Nodes: l.informers.Core().V1().Nodes().Lister(), Clock: clock.RealClock{},
		Recorder: recorder,
	}
	r.Run(ctx)
}

// run runs controllers until ctx ends.
func (l *leaderControllers) run(ctx context.Context, a *nodes.Adapter, controllers []string) error {
	logger := klog.FromContext(ctx)
	var starts []func()
	for _, name := range controllers {
		start, err := l.controller(ctx, name, a)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		if start == nil {
			continue
		}
		starts = append(starts, func() {
			logger.Info("Starting controller", "controller", name)
			start()
			logger.Info("Controller has ended", "controller", name)
		})
	}
	var wg sync.WaitGroup
	for _, start := range starts {
		wg.Go(start)
	}
	<-ctx.Done()
	wg.Wait()
	return nil
}

// controller makes a controller and returns what runs it, nil when the cloud or the
// configuration leaves it nothing to do.
func (l *leaderControllers) controller(ctx context.Context, name string, a *nodes.Adapter) (func(), error) {
	c := &l.opts.Component
	core := l.informers.Core().V1()
	client, err := kubernetes.NewForConfig(apiclient.Named(l.config, name))
	if err != nil {
		return nil, err
	}
	switch name {
	case names.CloudNodeController:
		updates := c.NodeController.ConcurrentNodeStatusUpdates
		if updates == 0 {
			updates = c.NodeController.ConcurrentNodeSyncs
		}
		n, err := cloudnode.NewCloudNodeController(core.Nodes(), nodes.NewClient(client, core.Nodes().Lister()), a, c.NodeStatusUpdateFrequency.Duration,
			c.NodeController.ConcurrentNodeSyncs, updates)
		if err != nil {
			return nil, err
		}
		return func() { n.RunWithContext(ctx, l.metrics) }, nil
	case names.CloudNodeLifecycleController:
		n, err := nodelifecycle.NewCloudNodeLifecycleController(core.Nodes(), nodes.NewClient(client, core.Nodes().Lister()), a,
			c.NodeLifecycleController.NodeMonitorPeriod.Duration, int(c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs))
		if err != nil {
			return nil, err
		}
		return func() { n.Run(ctx, l.metrics) }, nil
	case names.ServiceLBController:
		return l.serviceController(ctx, name, client)
	case options.NodeIPAMController:
		return l.nodeIPAMController(ctx, client, a)
	case names.NodeRouteController:
		return l.routeController(ctx, client)
	case options.TaggingController:
		return l.taggingController(ctx, client), nil
	case options.KubeletServingController:
		return l.kubeletServingController(ctx, client, a)
	case options.PersistentVolumeLabelController:
		return l.pvLabelController(ctx)
	}
	return nil, errors.New("there is no such controller")
}

// instrumented returns what runs a controller of our own; metric is its name in the framework's metrics.
func (l *leaderControllers) instrumented(ctx context.Context, name, metric string, run func(context.Context) error, end func()) func() {
	return func() {
		defer end()
		l.metrics.ControllerStarted(metric)
		defer l.metrics.ControllerStopped(metric)
		if err := run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Controller cannot run", "controller", name)
		}
	}
}
