package certs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// secretWatch follows one Secret.
type secretWatch struct {
	name     types.NamespacedName
	informer cache.SharedIndexInformer
	// changed has a value when the Secret or the state of the watch may have changed.
	changed chan struct{}

	mu  sync.Mutex
	err error // why nothing was read yet
}

func watchSecret(client kubernetes.Interface, name types.NamespacedName) *secretWatch {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	}
	lists := listFirst{cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "secrets", name.Namespace, only)}
	return &secretWatch{name: name, informer: cache.NewSharedIndexInformer(lists, &corev1.Secret{}, 0, nil), changed: make(chan struct{}, 1), err: errNotRead}
}

// listFirst makes an informer list before it watches: only so it says why it cannot, and ends at
// once while it waits to try again.
type listFirst struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what the informer asks.
func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// quiet returns ctx for requests that carry private keys: client-go logs their content at V(8).
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// run watches until ctx ends.
func (w *secretWatch) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	err := w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		logger.V(4).Info("Secret is not watched; it is tried again", "reason", err.Error())
		w.mu.Lock()
		w.err = fmt.Errorf("read the Secret: %w%s", err, nextStep(err))
		w.mu.Unlock()
		w.notify()
	})
	if err != nil {
		return err
	}
	if _, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.notify() }, UpdateFunc: func(_, _ any) { w.notify() }, DeleteFunc: func(any) { w.notify() },
	}); err != nil {
		return err
	}
	ctx = quiet(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.informer.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced)
	w.notify() // there may be none
	wg.Wait()
	return nil
}

func (w *secretWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// get returns the Secret as it was seen last, nil when there was none. It fails before it was seen.
func (w *secretWatch) get() (*corev1.Secret, error) {
	if !w.informer.HasSynced() {
		w.mu.Lock()
		defer w.mu.Unlock()
		return nil, w.err
	}
	obj, exists, err := w.informer.GetStore().GetByKey(w.name.String())
	if err != nil || !exists {
		return nil, err
	}
	return obj.(*corev1.Secret), nil
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
