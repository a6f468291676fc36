package ccm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Manager is a cloud controller manager. New makes one, Add and AddReadyCheck extend it,
// Run runs it once.
type Manager struct {
	opts      *Options
	config    *rest.Config
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	migration migration
	topology  *csiTopology // nil where no PersistentVolumes are labeled

	health, live, ready *checks
	extra               []manager.Runnable
}

// New makes a Manager of options that Validate has accepted. It reads the files that the
// options name, but uses no network.
func New(ctx context.Context, o *Options) (*Manager, error) {
	logger := klog.FromContext(ctx)
	config, err := clientConfig("kubeconfig", o.Component.Generic.ClientConnection.Kubeconfig, o.Master)
	if err != nil {
		return nil, err
	}
	c := o.Component.Generic.ClientConnection
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	if c.QPS <= 0 {
		config.QPS = unlimited // client-go takes 0 for 5
	}
	config.DisableCompression = true
	if o.DryRun {
		dryRunConfig(config, logger)
	}
	m := &Manager{
		opts: o, config: config,
		health: newChecks("healthz", logger), live: newChecks("livez", logger), ready: newChecks("readyz", logger),
	}
	if m.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if m.migration, err = o.loadMigration(); err != nil {
		return nil, err
	}
	resync := o.Component.Generic.MinResyncPeriod.Duration
	m.informers = informers.NewSharedInformerFactoryWithOptions(m.client, resync+rand.N(resync), informers.WithTransform(trim))
	if m.watches() {
		m.informers.Core().V1().Nodes().Informer()
		m.informers.Core().V1().Services().Informer()
	}
	return m, nil
}

// watches reports whether Nodes and Services are watched: not where only webhooks are served.
func (m *Manager) watches() bool { return len(m.opts.enabledControllers()) > 0 }

// Config returns a copy of the API server's client configuration.
func (m *Manager) Config() *rest.Config { return rest.CopyConfig(m.config) }

// Add makes Run run r: on every replica if r says that it needs no leader election,
// otherwise on the leader.
func (m *Manager) Add(r manager.Runnable) { m.extra = append(m.extra, r) }

// AddReadyCheck adds a check to /readyz. The reason of its failure is logged, not served.
func (m *Manager) AddReadyCheck(name string, check healthz.Checker) error {
	return m.ready.add(name, check)
}

// Run checks that the cloud and the API server accept us and then runs everything until ctx
// ends or something fails. In the first case, controllers end, calls to the cloud return
// and the lease is released before Run returns nil. The process must end after Run.
func (m *Manager) Run(ctx context.Context, p *decorate.Provider) error {
	defer p.Close()
	logger := klog.FromContext(ctx)
	cluster, err := m.preflight(ctx, p)
	if err != nil {
		return err
	}
	m.opts.sayFeatureGates(logger)
	l, err := m.locks()
	if err != nil {
		return err
	}
	mgr, err := m.newManager(ctx, l.main)
	if err != nil {
		return err
	}
	if err := m.addChecks(p, l); err != nil {
		return err
	}
	runnables, err := m.runnables(ctx, p, cluster, l)
	if err != nil {
		return err
	}
	var drain []*draining
	for _, r := range m.extra {
		if !needsLease(r) {
			d := newDraining(r)
			drain, r = append(drain, d), d
		}
		runnables = append(runnables, r)
	}
	for _, r := range runnables {
		if err := mgr.Add(l.main.guarding(r)); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	m.opts.explainNodeIPAM(logger)
	if m.opts.DryRun {
		logger.Info("Dry run: nothing is changed, neither in the cloud nor in the cluster")
	}
	logger.Info("Starting", "version", version.String(), "cloud", p.Name, "controllers", m.opts.enabledControllers(), "clusterUID", cluster.UID)
	err = mgr.Start(klog.NewContext(ctx, logger))
	// Who has lost the lease has not waited for its controllers: their calls to the cloud end
	// before webhooks take their time.
	p.EndLease()
	l.main.release(ctx)
	awaitDrained(ctx, drain, m.opts.ShutdownTimeout)
	if err != nil {
		return fmt.Errorf("cloud controller manager: %w", err)
	}
	return nil
}

// preflight checks what must hold before anything starts, so that a process that cannot
// work ends with a reason instead of retrying for ever: the cloud accepts us, the API
// server does, and routes know their range. It returns who we are for the cloud.
func (m *Manager) preflight(ctx context.Context, p *decorate.Provider) (cloud.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, m.opts.StartTimeout)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		return cloud.Cluster{}, fmt.Errorf("cloud %s: %w", p.Name, err)
	}
	cidrs, err := m.opts.podCIDRs()
	if err != nil {
		return cloud.Cluster{}, err
	}
	if len(cidrs) == 0 && m.opts.routesWanted(p.Routes != nil) {
		return cloud.Cluster{}, errors.New("--cluster-cidr is required while the cloud's configuration turns routes on: set it, or turn routes off with --configure-cloud-routes=false")
	}
	if m.opts.nodeIPAMEnabled() && m.opts.fromCloud() && !p.GivesPodCIDRs {
		return cloud.Cluster{}, fmt.Errorf("--cidr-allocator-type=%s: cloud %s gives its instances no pod CIDRs: use %s", allocatorCloud, p.Name, allocatorRange)
	}
	uid, err := clusterUID(ctx, m.client)
	if err != nil {
		return cloud.Cluster{}, err
	}
	return cloud.Cluster{Name: m.opts.Component.KubeCloudShared.ClusterName, UID: uid, PodCIDRs: cidrs}, nil
}

// runnables are what Run runs beside what was added from outside.
func (m *Manager) runnables(ctx context.Context, p *decorate.Provider, cluster cloud.Cluster, l locks) ([]manager.Runnable, error) {
	var out []manager.Runnable
	if m.opts.Serving.Port != 0 || m.opts.Serving.Listener != nil {
		serving, err := m.serving(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, serving...)
	}
	if p.Run != nil {
		out = append(out, everyReplica{p.Run})
	}
	if m.topology != nil {
		out = append(out, everyReplica{m.topology.run})
	}
	if !m.watches() {
		return out, nil
	}
	if m.opts.labelsVolumes(p) {
		m.informers.Core().V1().PersistentVolumes().Informer()
	}
	out = append(out, everyReplica{func(ctx context.Context) error {
		m.informers.StartWithContext(ctx)
		<-ctx.Done()
		m.informers.Shutdown()
		return nil
	}})
	controllersmetrics.Register()
	serviceMetrics, err := service.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	routeMetrics, err := routes.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	return append(out, &term{
		opts: m.opts, config: m.config, client: m.client, informers: m.informers, provider: p, cluster: cluster,
		controllers: m.opts.enabledControllers(), migration: m.migration,
		secondLock: l.second, topology: m.topology,
		metrics: controllersmetrics.NewControllerManagerMetrics(componentName),

		serviceMetrics: serviceMetrics, routeMetrics: routeMetrics,
	}), nil
}

func (m *Manager) addChecks(p *decorate.Provider, l locks) error {
	alive := func(*http.Request) error { return nil }
	errs := []error{m.health.add("ping", alive), m.live.add("ping", alive)}
	if l.main != nil {
		errs = append(errs, m.health.add("leaderElection", l.main.Check), m.live.add("leaderElection", l.main.Check))
	}
	if l.second != nil {
		errs = append(errs, m.health.add("leaderMigration", l.second.Check), m.live.add("leaderMigration", l.second.Check))
	}
	if m.watches() {
		core := m.informers.Core().V1()
		m.guardNodes(p)
		errs = append(errs, m.ready.addWarning("node-deletion", heldCheck(p.Nodes.Held)))
		errs = append(errs, m.ready.add("informers", synced(core.Nodes().Informer().HasSynced, core.Services().Informer().HasSynced)))
	}
	// The cloud has accepted us before anything is served. When it goes later, webhooks must
	// still be reached, to say so or to answer without it.
	return errors.Join(append(errs, m.ready.addWarning("cloud", func(r *http.Request) error { return p.Ready(r.Context()) }))...)
}

// newManager makes controller-runtime's manager, which only runs things for us: health,
// metrics and webhooks are our own, and nothing uses its client and cache yet.
func (m *Manager) newManager(ctx context.Context, lock *watchedLock) (manager.Manager, error) {
	l := m.opts.Component.Generic.LeaderElection
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	o := manager.Options{
		Scheme:                        scheme,
		Logger:                        quietStop(ctx, klog.FromContext(ctx)),
		BaseContext:                   func() context.Context { return context.WithoutCancel(ctx) },
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		GracefulShutdownTimeout:       &m.opts.ShutdownTimeout,
		LeaderElectionReleaseOnCancel: false, // see watchedLock.release
		LeaseDuration:                 &l.LeaseDuration.Duration,
		RenewDeadline:                 &l.RenewDeadline.Duration,
		RetryPeriod:                   &l.RetryPeriod.Duration,
		LeaderElectionID:              l.ResourceName,
	}
	if lock != nil {
		o.LeaderElection, o.LeaderElectionResourceLockInterface = true, lock
	}
	mgr, err := manager.New(m.config, o)
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}
