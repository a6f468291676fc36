package ccm

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/names"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
)

// routeController makes our own route controller, nil where there is nothing for it to do.
func (l *leaderControllers) routeController(ctx context.Context, client kubernetes.Interface) (func(), error) {
	if !l.opts.RoutesWanted(l.provider.Routes != nil) {
		klog.FromContext(ctx).Info("Routes are turned off, by --configure-cloud-routes or by the cloud's configuration", "controller", names.NodeRouteController)
		return nil, nil
	}
	recorder, shutdown := l.recorder(ctx, "route_controller")
	c := routes.New(routes.Config{
		Client: client, Nodes: l.informers.Core().V1().Nodes(), Routes: l.provider.Routes, Traits: l.provider.Routing, Owns: l.provider.Owns,
		Cluster: l.cluster, Recorder: recorder,
		Period: l.opts.Component.KubeCloudShared.RouteReconciliationPeriod.Duration,
		Guard: routes.Guard{
			Limits: l.opts.NodeDeletion,
			Operator: func(ctx context.Context) deletionguard.Operator {
				return nodes.Operator(ctx, l.client, clock.RealClock{})
			},
			Release: func(now time.Time) string {
				return fmt.Sprintf("If these Nodes are really gone, say so with: kubectl annotate --overwrite namespace %s %s=%s",
					metav1.NamespaceSystem, options.DeleteNodesUntil, now.UTC().Add(time.Hour).Format(time.RFC3339))
			},
		},
		Metrics: l.routeMetrics, Clock: clock.RealClock{},
	})
	return l.instrumented(ctx, names.NodeRouteController, "route", c.Run, shutdown), nil
}
