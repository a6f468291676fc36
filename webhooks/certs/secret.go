package certs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// secretWatch follows one Secret. An informer would do the same, but would neither say why
// it cannot nor end while it waits to try again.
type secretWatch struct {
	name   types.NamespacedName
	client kubernetes.Interface
	// changed has a value when the Secret or the state of the watch may have changed.
	changed chan struct{}

	mu     sync.Mutex
	secret *corev1.Secret
	err    error // why secret is not known; nil when it is
}

func watchSecret(client kubernetes.Interface, name types.NamespacedName) *secretWatch {
	return &secretWatch{name: name, client: client, changed: make(chan struct{}, 1), err: errNotRead}
}

const (
	// listTimeout limits a list; a watch is ended by the API server after watchTimeout.
	listTimeout  = 30 * time.Second
	watchTimeout = 10 * time.Minute
	// A list follows the end of a watch after minRetry, and errors after up to maxRetry.
	minRetry = time.Second
	maxRetry = 16 * time.Second
)

// quiet returns ctx for requests that carry private keys: client-go logs their content at V(8).
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// run watches until ctx ends.
func (w *secretWatch) run(ctx context.Context) {
	ctx = quiet(ctx)
	for delay := minRetry; ; {
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		delay = min(2*delay, maxRetry)
		if err == nil {
			delay = minRetry
		} else {
			w.failed(err)
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// follow lists the Secret and follows it until the watch ends, which is no error.
func (w *secretWatch) follow(ctx context.Context) error {
	secrets := w.client.CoreV1().Secrets(w.name.Namespace)
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name.Name).String()}
	listCtx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := secrets.List(listCtx, only)
	if err != nil {
		return err
	}
	var secret *corev1.Secret
	if len(list.Items) > 0 {
		secret = &list.Items[0]
	}
	w.saw(secret)
	only.ResourceVersion, only.TimeoutSeconds = list.ResourceVersion, new(int64(watchTimeout.Seconds()))
	events, err := secrets.Watch(ctx, only)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			if secret, ok := event.Object.(*corev1.Secret); ok {
				w.saw(secret)
			}
		case watch.Deleted:
			w.saw(nil)
		case watch.Error:
			return nil // the version is too old, or the server ends: list again
		}
	}
	return nil
}

func (w *secretWatch) saw(secret *corev1.Secret) {
	w.mu.Lock()
	w.secret, w.err = secret, nil
	w.mu.Unlock()
	w.notify()
}

// failed makes get fail: what was seen may be old.
func (w *secretWatch) failed(err error) {
	w.mu.Lock()
	w.err = fmt.Errorf("read the Secret: %w%s", err, nextStep(err))
	w.mu.Unlock()
	w.notify()
}

func (w *secretWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// get returns the Secret; nil when there is none. It fails while it is not known.
func (w *secretWatch) get() (*corev1.Secret, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secret, w.err
}

// errNotRead is before the first answer of the API server.
var errNotRead = errors.New("the API server has not answered yet")

// nextStep says what to do about an error of the API server.
func nextStep(err error) string {
	switch {
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "; apply the RBAC of --webhook-cert-source: see docs/guides/webhook-certificates.md"
	case apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces"):
		return "; create the namespace, or name another with --webhook-cert-secret"
	}
	return ""
}
