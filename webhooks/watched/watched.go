// Package watched follows one object of the API server, by an informer that asks for nothing else.
package watched

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ErrNotRead is before the first answer of the API server.
var ErrNotRead = errors.New("the API server has not answered yet")

// Object is the object.
type Object struct {
	// Changed has a value when what Get returns may have changed.
	Changed  chan struct{}
	name     types.NamespacedName
	informer cache.SharedIndexInformer
	explain  func(error) error

	mu  sync.Mutex
	err error // why nothing was read yet
}

// Target is which object is followed. All is required but the namespace of what has none.
type Target struct {
	Client   cache.Getter
	Resource string // in the plural, as in paths of the API
	Name     types.NamespacedName
	Empty    runtime.Object // of the object's type
}

// New returns an Object. It uses no network. explain says of which object an error is and what to do
// about it.
func New(t Target, explain func(error) error) *Object {
	lists := listFirst{cache.NewFilteredListWatchFromClient(t.Client, t.Resource, t.Name.Namespace, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name.Name).String()
	})}
	return &Object{Changed: make(chan struct{}, 1), name: t.Name, informer: cache.NewSharedIndexInformer(lists, t.Empty, 0, nil), explain: explain, err: ErrNotRead}
}

// listFirst makes an informer list before it watches: only so it says why it cannot, and ends at
// once while it waits to try again.
type listFirst struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what the informer asks.
func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// Run follows the object until ctx ends.
func (o *Object) Run(ctx context.Context) error {
	err := o.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		o.mu.Lock()
		o.err = o.explain(err)
		o.mu.Unlock()
		o.notify()
	})
	if err != nil {
		return err
	}
	if _, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { o.notify() }, UpdateFunc: func(_, _ any) { o.notify() }, DeleteFunc: func(any) { o.notify() },
	}); err != nil {
		return err
	}
	var informer sync.WaitGroup
	informer.Go(func() { o.informer.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced)
	o.notify() // there may be none
	informer.Wait()
	return nil
}

func (o *Object) notify() {
	select {
	case o.Changed <- struct{}{}:
	default:
	}
}

// Get returns the object as it was seen last, which is not to be changed; nil when there was none.
// It fails before it was seen.
func (o *Object) Get() (any, error) {
	if !o.informer.HasSynced() {
		o.mu.Lock()
		defer o.mu.Unlock()
		return nil, o.err
	}
	key := o.name.Name
	if o.name.Namespace != "" {
		key = o.name.String()
	}
	obj, _, err := o.informer.GetStore().GetByKey(key)
	return obj, err
}
