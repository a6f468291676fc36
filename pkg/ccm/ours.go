package ccm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/names"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/routes"
)

// routeController makes our own route controller, nil where there is nothing for it to do.
func (t *term) routeController(ctx context.Context, client kubernetes.Interface) (func(), error) {
	if !t.opts.routesWanted(t.provider.Routes != nil) {
		klog.FromContext(ctx).Info("Routes are turned off, by --configure-cloud-routes or by the cloud's configuration", "controller", names.NodeRouteController)
		return nil, nil
	}
	recorder, shutdown := t.recorder(ctx, "route_controller")
	limits := t.opts.NodeDeletion
	c := routes.New(routes.Config{
		Client: client, Nodes: t.informers.Core().V1().Nodes(), Routes: t.provider.Routes, Traits: t.provider.Routing, Owns: t.provider.Owns,
		Cluster: t.cluster, Recorder: recorder,
		Period: t.opts.Component.KubeCloudShared.RouteReconciliationPeriod.Duration,
		Guard: routes.Guard{
			Count: limits.Count, Percent: limits.Percent, Settle: limits.Settle,
			Operator: func(ctx context.Context) (bool, string) {
				word := operator(ctx, t.client, clock.RealClock{})
				return word.Confirmed, word.Problem
			},
			Release: func(now time.Time) string {
				return fmt.Sprintf("If these Nodes are really gone, say so with: kubectl annotate --overwrite namespace %s %s=%s",
					metav1.NamespaceSystem, DeleteNodesUntil, now.UTC().Add(time.Hour).Format(time.RFC3339))
			},
		},
		Metrics: t.routeMetrics, Clock: clock.RealClock{},
	})
	return t.ours(ctx, names.NodeRouteController, "route", c.Run, shutdown), nil
}

// ours returns what runs a controller of our own; metric is its name in the framework's metrics.
func (t *term) ours(ctx context.Context, name, metric string, run func(context.Context) error, end func()) func() {
	return func() {
		defer end()
		t.metrics.ControllerStarted(metric)
		defer t.metrics.ControllerStopped(metric)
		if err := run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Controller cannot run", "controller", name)
		}
	}
}

// recorder returns a recorder of events in the component's name, and what ends it. It writes
// with a client of its own, so that events do not hold up the controller's writes.
func (t *term) recorder(ctx context.Context, component string) (record.EventRecorder, func()) {
	return t.recorderTo(ctx, component, t.client)
}

// recorderTo is recorder with another client.
func (t *term) recorderTo(ctx context.Context, component string, client kubernetes.Interface) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	if t.opts.DryRun {
		broadcaster.StartStructuredLogging(0)
	}
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), broadcaster.Shutdown
}
