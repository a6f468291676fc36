package ccm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/leader"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/kubeletserving"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
)

// statusSource is where /status reads.
func (m *Manager) statusSource(p *decorate.Provider) status.Source {
	s := status.Source{
		Leader: m.locks.Main.Holder, Owns: p.Owns, Traffic: m.Traffic, Errors: m.errors, Now: time.Now,
		Metrics: prometheus.Gatherers{metrics.Registry, legacyregistry.DefaultGatherer},
	}
	if !m.watches() {
		return s
	}
	core := m.informers.Core().V1()
	s.Nodes, s.Services = core.Nodes().Lister(), core.Services().Lister()
	s.Routes = m.opts.RoutesWanted(p.Routes != nil) && slices.Contains(m.opts.EnabledControllers(), names.NodeRouteController)
	if labelsVolumes(m.opts, p) {
		s.Volumes = core.PersistentVolumes().Lister()
		s.Labels = func(v *corev1.PersistentVolume) bool {
			_, ok, err := p.Volumes.Ref(v)
			return ok || err != nil
		}
	}
	return s
}

// runnables are what Run runs beside what was added from outside.
func (m *Manager) runnables(ctx context.Context, p *decorate.Provider, cluster cloud.Cluster) ([]manager.Runnable, error) {
	var out []manager.Runnable
	m.opts.CloudSettings = p.Settings
	if m.opts.Serving.Port != 0 || m.opts.Serving.Listener != nil {
		port, err := serving.New(ctx, m.opts, m.config, status.Handler(m.statusSource(p)), m.health, m.live, m.ready)
		if err != nil {
			return nil, err
		}
		out = append(out, port...)
	}
	if p.Run != nil {
		out = append(out, leader.EveryReplica{Run: p.Run})
	}
	if m.topology != nil {
		out = append(out, leader.EveryReplica{Run: m.topology.Run})
	}
	if !m.watches() {
		return out, nil
	}
	if labelsVolumes(m.opts, p) {
		m.informers.Core().V1().PersistentVolumes().Informer()
	}
	if err := startMetrics(m.opts, p); err != nil {
		return nil, err
	}
	out = append(out, leader.EveryReplica{Run: func(ctx context.Context) error {
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
	return append(out, &leaderControllers{
		opts: m.opts, config: m.config, client: m.client, informers: m.informers, provider: p, cluster: cluster,
		locks: m.locks, topology: m.topology, errors: m.errors,
		metrics:        controllersmetrics.NewControllerManagerMetrics(leader.Component),
		serviceMetrics: serviceMetrics, routeMetrics: routeMetrics,
	}), nil
}

// startMetrics gives the metrics of controllers that may be off their zeros, on every replica and not on the leader alone.
func startMetrics(o *options.Options, p *decorate.Provider) error {
	var volumes, kubelets error
	if labelsVolumes(o, p) {
		_, volumes = pvlabel.NewMetrics(metrics.Registry)
	}
	if slices.Contains(o.EnabledControllers(), options.KubeletServingController) {
		_, kubelets = kubeletserving.NewMetrics(metrics.Registry)
	}
	return errors.Join(volumes, kubelets, startNodeIPAMMetrics(o))
}
