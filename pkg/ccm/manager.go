package ccm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/csitopology"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/leader"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// Manager is a cloud controller manager. New makes one, Add and AddReadyCheck extend it,
// Run runs it once.
type Manager struct {
	// Traffic, where it is not nil, says how often the cloud may be asked, for the status page. It is set before Run.
	Traffic func() []caller.Family

	opts      *options.Options
	config    *rest.Config
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	locks     leader.Locks
	topology  *csitopology.Volumes // nil where no PersistentVolumes are labeled
	tracing   *tracing.Config      // nil where it is off
	errors    *status.Errors

	health, live, ready *serving.Checks
	extra               []manager.Runnable
}

// New makes a Manager of options that Validate has accepted. It reads the files that the
// options name, but uses no network.
func New(ctx context.Context, o *options.Options) (*Manager, error) {
	logger := klog.FromContext(ctx)
	config, err := apiclient.Config("kubeconfig", o.Component.Generic.ClientConnection.Kubeconfig, o.Master)
	if err != nil {
		return nil, err
	}
	c := o.Component.Generic.ClientConnection
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	if c.QPS <= 0 {
		config.QPS = options.Unlimited // client-go takes 0 for 5
	}
	config.DisableCompression = true
	if o.DryRun {
		apiclient.DryRun(config, logger)
	}
	m := &Manager{
		opts: o, config: config, errors: status.NewErrors(time.Now),
		health: serving.NewChecks("healthz", logger), live: serving.NewChecks("livez", logger), ready: serving.NewChecks("readyz", logger),
	}
	if o.TracingConfigFile != "" {
		if m.tracing, err = tracing.Load(o.TracingConfigFile); err != nil {
			return nil, fmt.Errorf("--tracing-config-file: %w", err)
		}
	}
	if m.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if m.locks, err = leader.NewLocks(o, config); err != nil {
		return nil, err
	}
	resync := o.Component.Generic.MinResyncPeriod.Duration
	m.informers = informers.NewSharedInformerFactoryWithOptions(m.client, resync+rand.N(resync), informers.WithTransform(crcache.TransformStripManagedFields()))
	if m.watches() {
		m.informers.Core().V1().Nodes().Informer()
		m.informers.Core().V1().Services().Informer()
	}
	return m, nil
}

// watches reports whether Nodes and Services are watched: not where only webhooks are served.
func (m *Manager) watches() bool { return m.opts.RunsControllers() }

// Config returns a copy of the API server's client configuration.
func (m *Manager) Config() *rest.Config { return rest.CopyConfig(m.config) }

// Kube is what a provider gets of the cluster.
func (m *Manager) Kube() cloud.Kube { return apiclient.NewKube(m.client) }

// Add makes Run run r: on every replica if r says that it needs no leader election,
// otherwise on the leader.
func (m *Manager) Add(r manager.Runnable) { m.extra = append(m.extra, r) }

// Failed keeps an error about an object, kind/name in small letters, for the status page. Its texts must hold no secrets.
func (m *Manager) Failed(object, reason, message string) { m.errors.Add(object, reason, message) }

// AddReadyCheck adds a check to /readyz. The reason of its failure is logged, not served.
func (m *Manager) AddReadyCheck(name string, check healthz.Checker) error {
	return m.ready.Add(name, check)
}

// Run checks that the cloud and the API server accept us and then runs everything until ctx
// ends or something fails. In the first case, controllers end, calls to the cloud return
// and the lease is released before Run returns nil. The process must end after Run.
func (m *Manager) Run(ctx context.Context, p *decorate.Provider) error {
	ctx, end, err := tracing.Run(ctx, m.tracing, version.String())
	if err != nil {
		return err
	}
	defer end()
	defer p.Close()
	logger := klog.FromContext(ctx)
	cluster, err := m.preflight(ctx, p)
	if err != nil {
		return err
	}
	m.opts.SayFeatureGates(logger)
	lock := m.locks.Main
	mgr, err := m.newManager(ctx, lock)
	if err != nil {
		return err
	}
	if err := m.addChecks(p); err != nil {
		return err
	}
	runnables, err := m.runnables(ctx, p, cluster)
	if err != nil {
		return err
	}
	var drain []*leader.Draining
	for _, r := range m.extra {
		if !leader.NeedsLease(r) {
			d := leader.NewDraining(r)
			drain, r = append(drain, d), d
		}
		runnables = append(runnables, r)
	}
	for _, r := range runnables {
		if err := mgr.Add(lock.Guarding(r)); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	m.opts.ExplainNodeIPAM(logger)
	m.opts.ExplainTagging(logger)
	if m.opts.DryRun {
		logger.Info("Dry run: nothing is changed, neither in the cloud nor in the cluster")
	}
	logger.Info("Starting", "version", version.String(), "cloud", p.Name, "controllers", m.opts.EnabledControllers(), "clusterUID", cluster.UID)
	err = mgr.Start(klog.NewContext(ctx, logger))
	// Who has lost the lease has not waited for its controllers: their calls to the cloud end
	// before webhooks take their time.
	p.EndLease()
	lock.Release(ctx)
	leader.AwaitDrained(ctx, drain, m.opts.ShutdownTimeout)
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
	cidrs, err := m.opts.PodCIDRs()
	if err != nil {
		return cloud.Cluster{}, err
	}
	if len(cidrs) == 0 && m.opts.RoutesWanted(p.Routes != nil) {
		return cloud.Cluster{}, errors.New("--cluster-cidr is required while the cloud's configuration turns routes on: set it, or turn routes off with --configure-cloud-routes=false")
	}
	if m.opts.NodeIPAMEnabled() && m.opts.FromCloud() && !p.GivesPodCIDRs {
		return cloud.Cluster{}, fmt.Errorf("--cidr-allocator-type=%s: cloud %s gives its instances no pod CIDRs: use %s", options.AllocatorCloud, p.Name, options.AllocatorRange)
	}
	uid, err := apiclient.ClusterUID(ctx, m.client)
	if err != nil {
		return cloud.Cluster{}, err
	}
	cluster := cloud.Cluster{Name: m.opts.Component.KubeCloudShared.ClusterName, UID: uid, ID: uid, PodCIDRs: cidrs}
	if p.Identify != nil && m.watches() { // webhooks alone mark nothing
		if cluster.ID, err = p.Identify(ctx, cluster); err == nil && cluster.ID == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return cloud.Cluster{}, fmt.Errorf("what marks this cluster in cloud %s: %w", p.Name, err)
		}
	}
	return cluster, nil
}

// newManager makes controller-runtime's manager, which only runs things for us: health,
// metrics and webhooks are our own, and nothing uses its client and cache yet.
func (m *Manager) newManager(ctx context.Context, lock *leader.Lock) (manager.Manager, error) {
	l := m.opts.Component.Generic.LeaderElection
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	o := manager.Options{
		Scheme:                        scheme,
		Logger:                        leader.SuppressElectionLost(ctx, klog.FromContext(ctx)),
		BaseContext:                   func() context.Context { return context.WithoutCancel(ctx) },
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		GracefulShutdownTimeout:       &m.opts.ShutdownTimeout,
		LeaderElectionReleaseOnCancel: false, // see leader.Lock.Release
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
