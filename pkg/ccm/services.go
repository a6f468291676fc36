package ccm

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/service"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func (l *leaderControllers) serviceController(ctx context.Context, name string, client kubernetes.Interface) (func(), error) {
	if l.provider.LoadBalancers == nil {
		klog.FromContext(ctx).Info("The cloud's configuration has no load balancers: Services of type LoadBalancer are left alone", "controller", name)
		return nil, nil
	}
	core, o := l.informers.Core().V1(), &l.opts.LoadBalancers
	recorder, shutdown := l.recorder(ctx, service.Component)
	s, err := service.New(service.Config{
		LoadBalancers: l.provider.LoadBalancers,
		Provider:      &l.provider.Provider,
		Classes:       lb.NewClasses(&l.provider.LoadBalancing, o.DefaultClass),
		Cluster:       l.cluster,
		Client:        client.CoreV1(),
		Services:      core.Services(),
		Nodes:         core.Nodes(),
		Recorder:      recorder,
		Workers:       int(l.opts.Component.ServiceController.ConcurrentServiceSyncs),
		SyncPeriod:    o.SyncPeriod,
		Metrics:       l.serviceMetrics,
	})
	if err != nil {
		shutdown()
		return nil, err
	}
	return l.instrumented(ctx, name, "service", s.Run, shutdown), nil
}
