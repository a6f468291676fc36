package ccm

import (
	"context"

	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/leader"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
)

// statusSource is where /status reads.
func (m *Manager) statusSource() status.Source {
	s := status.Source{Leader: m.locks.Main.Holder, Metrics: metrics.Registry}
	if m.watches() {
		s.Nodes, s.Services = m.informers.Core().V1().Nodes().Lister(), m.informers.Core().V1().Services().Lister()
	}
	return s
}

// runnables are what Run runs beside what was added from outside.
func (m *Manager) runnables(ctx context.Context, p *decorate.Provider, cluster cloud.Cluster) ([]manager.Runnable, error) {
	var out []manager.Runnable
	if m.opts.Serving.Port != 0 || m.opts.Serving.Listener != nil {
		port, err := serving.New(ctx, m.opts, m.config, status.Handler(m.statusSource()), m.health, m.live, m.ready)
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
		if _, err := pvlabel.NewMetrics(metrics.Registry); err != nil { // on every replica, from the start
			return nil, err
		}
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
		locks: m.locks, topology: m.topology,
		metrics:        controllersmetrics.NewControllerManagerMetrics(leader.Component),
		serviceMetrics: serviceMetrics, routeMetrics: routeMetrics,
	}), nil
}
