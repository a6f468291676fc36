package ccm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// recorder returns a recorder of events in the component's name, and what ends it. It writes
// with a client of its own, so that events do not hold up the controller's writes.
func (l *leaderControllers) recorder(ctx context.Context, component string) (record.EventRecorder, func()) {
	return l.recorderTo(ctx, component, l.client)
}

// recorderTo is recorder with another client.
func (l *leaderControllers) recorderTo(ctx context.Context, component string, client kubernetes.Interface) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	if l.opts.DryRun {
		broadcaster.StartStructuredLogging(0)
	}
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), broadcaster.Shutdown
}
