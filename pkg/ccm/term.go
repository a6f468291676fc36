package ccm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// term is one term of leadership: the controllers, and under leader migration the campaign
// for the second lease. It ends only when no call to the cloud is under way any more, so
// that the next leader never acts at the same time.
type term struct {
	opts        *Options
	config      *rest.Config
	client      kubernetes.Interface
	informers   informers.SharedInformerFactory
	provider    *decorate.Provider
	cluster     cloud.Cluster
	controllers []string
	migration   migration
	// secondLock is the leader migration's; nil without one.
	secondLock *watchedLock
	metrics    *controllersmetrics.ControllerManagerMetrics
	// serviceMetrics are the service controller's.
	serviceMetrics *service.Metrics
	// routeMetrics are the route controller's.
	routeMetrics *routes.Metrics
	// topology is nil where no PersistentVolumes are labeled.
	topology *csiTopology
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*term) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (t *term) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core := t.informers.Core().V1()
	if !cache.WaitForCacheSync(ctx.Done(), core.Nodes().Informer().HasSynced, core.Services().Informer().HasSynced) {
		return nil
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	defer cancel()
	reports.Go(func() { t.reportHeld(ctx) })
	a := newAdapter(ctx, adapterConfig{
		provider: t.provider, nodes: core.Nodes().Lister(),
		monitorPeriod: t.opts.Component.NodeLifecycleController.NodeMonitorPeriod.Duration,
	})
	defer a.end()
	defer cancel() // before end waits for the calls
	if t.secondLock == nil {
		return t.run(ctx, a, t.controllers)
	}
	logger.Info("Leader migration is on", "lease", t.migration.lease,
		"migrated", t.migration.under(true, t.controllers), "notMigrated", t.migration.under(false, t.controllers))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	failed := make(chan error, 2)
	wg.Go(func() { failed <- t.campaign(ctx, a) })
	wg.Go(func() { failed <- t.run(ctx, a, t.migration.under(false, t.controllers)) })
	return <-failed
}

// reportHeld says in Events what the deletion guard holds, until ctx ends.
func (t *term) reportHeld(ctx context.Context) {
	recorder, shutdown := t.recorder(ctx, componentName)
	defer shutdown()
	r := &heldReporter{
		held: t.provider.Nodes.Held, nodes: t.informers.Core().V1().Nodes().Lister(), clock: clock.RealClock{},
		recorder: recorder,
	}
	r.run(ctx)
}

// campaign runs the migrated controllers while it holds the second lease, and returns an
// error when it loses that.
func (t *term) campaign(ctx context.Context, a *adapter) error {
	config := t.opts.electorConfig(t.secondLock, t.migration.lease)
	// The lease is given up after the controllers' end, not at the same time.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	started, ended := make(chan struct{}), make(chan error, 1)
	lost := make(chan struct{})
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			close(started)
			err := t.run(runCtx, a, t.migration.under(true, t.controllers))
			stop()
			if ctx.Err() != nil {
				a.end()
			}
			ended <- err
		},
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
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
		err = <-ended
	default:
	}
	release()
	<-lost
	if ctx.Err() != nil { // the adapter has ended: nothing acts any more
		t.secondLock.release(ctx)
	}
	return err
}

// run runs controllers until ctx ends.
func (t *term) run(ctx context.Context, a *adapter, controllers []string) error {
	logger := klog.FromContext(ctx)
	var starts []func()
	for _, name := range controllers {
		start, err := t.controller(ctx, name, a)
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
func (t *term) controller(ctx context.Context, name string, a *adapter) (func(), error) {
	c := &t.opts.Component
	core := t.informers.Core().V1()
	client, err := kubernetes.NewForConfig(named(t.config, name))
	if err != nil {
		return nil, err
	}
	switch name {
	case names.CloudNodeController:
		updates := c.NodeController.ConcurrentNodeStatusUpdates
		if updates == 0 {
			updates = c.NodeController.ConcurrentNodeSyncs
		}
		n, err := cloudnode.NewCloudNodeController(core.Nodes(), nodeClient{client, core.Nodes().Lister()}, a, c.NodeStatusUpdateFrequency.Duration,
			c.NodeController.ConcurrentNodeSyncs, updates)
		if err != nil {
			return nil, err
		}
		return func() { n.RunWithContext(ctx, t.metrics) }, nil
	case names.CloudNodeLifecycleController:
		n, err := nodelifecycle.NewCloudNodeLifecycleController(core.Nodes(), nodeClient{client, core.Nodes().Lister()}, a,
			c.NodeLifecycleController.NodeMonitorPeriod.Duration, int(c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs))
		if err != nil {
			return nil, err
		}
		return func() { n.Run(ctx, t.metrics) }, nil
	case names.ServiceLBController:
		return t.serviceController(ctx, name, client)
	case NodeIPAMController:
		return t.nodeIPAMController(ctx, client, a)
	case names.NodeRouteController:
		return t.routeController(ctx, client)
	case PersistentVolumeLabelController:
		return t.pvLabelController(ctx)
	}
	return nil, errors.New("there is no such controller")
}

func (t *term) serviceController(ctx context.Context, name string, client kubernetes.Interface) (func(), error) {
	if t.provider.LoadBalancers == nil {
		klog.FromContext(ctx).Info("The cloud's configuration has no load balancers: Services of type LoadBalancer are left alone", "controller", name)
		return nil, nil
	}
	core, o := t.informers.Core().V1(), &t.opts.LoadBalancers
	recorder, shutdown := t.recorder(ctx, service.Component)
	s, err := service.New(service.Config{
		LoadBalancers: t.provider.LoadBalancers,
		Vocabulary:    t.provider.Annotations,
		Classes:       lb.Classes{Provider: t.provider.Name, Names: t.provider.LoadBalancerClasses, Default: o.DefaultClass},
		Cluster:       t.cluster,
		Client:        client.CoreV1(),
		Services:      core.Services(),
		Nodes:         core.Nodes(),
		Recorder:      recorder,
		Workers:       int(t.opts.Component.ServiceController.ConcurrentServiceSyncs),
		SyncPeriod:    o.SyncPeriod,
		Metrics:       t.serviceMetrics,
	})
	if err != nil {
		shutdown()
		return nil, err
	}
	return t.ours(ctx, name, "service", s.Run, shutdown), nil
}

// routesWanted reports whether the route controller has something to do.
func (o *Options) routesWanted(able bool) bool {
	return able && o.Component.KubeCloudShared.ConfigureCloudRoutes &&
		slices.Contains(o.enabledControllers(), names.NodeRouteController)
}

// RunsControllers reports whether --controllers turns any on.
func (o *Options) RunsControllers() bool { return len(o.enabledControllers()) > 0 }

// ServesClassless reports whether Services without a load balancer class are ours: this
// process works on them or, if it runs no controllers, another one with the same flag.
func (o *Options) ServesClassless() bool {
	return o.LoadBalancers.DefaultClass && (!o.RunsControllers() || slices.Contains(o.enabledControllers(), names.ServiceLBController))
}

// enabledControllers returns the controllers that --controllers turns on.
func (o *Options) enabledControllers() []string {
	var out []string
	for _, name := range ControllerNames() {
		if enabled(name, o.Component.Generic.Controllers, o.offByDefault()) {
			out = append(out, name)
		}
	}
	return out
}
