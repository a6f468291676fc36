package ccm

import (
	"context"
	"slices"
	"strings"

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
	broadcaster.StartEventWatcher(l.keepWarning)
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), broadcaster.Shutdown
}

// keepWarning keeps what an event warns of for the status page.
func (l *leaderControllers) keepWarning(e *corev1.Event) {
	if e.Type != corev1.EventTypeWarning {
		return
	}
	about := []string{strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Namespace, e.InvolvedObject.Name}
	l.errors.Add(strings.Join(slices.DeleteFunc(about, func(s string) bool { return s == "" }), "/"), e.Reason, e.Message)
}
