package pvlabel

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// Name is the controller's name.
const Name = "persistentvolume-label-controller"

const (
	// company is how long a PersistentVolume waits for others, to be decided together.
	company = 500 * time.Millisecond
	// batchMost bounds how many are decided together.
	batchMost = 5000
	// writers is how many PersistentVolumes are written at a time.
	writers = 10
	// retryMin and retryMax bound the pause before a PersistentVolume is tried again.
	retryMin, retryMax = time.Second, 5 * time.Minute
	// recheck is when one is looked at again for which only the cloud or the Nodes can change,
	// unless the Node that it waits for appears before.
	recheck = time.Hour
	// again is when one is looked at again that was decided while Nodes changed.
	again = 2 * time.Second
)

// Volumes is what the controller asks of a cloud; cloud.Volumes has it.
type Volumes interface {
	Ref(pv *corev1.PersistentVolume) (ref cloud.VolumeRef, ok bool, err error)
	Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume]
}

var _ Volumes = cloud.Volumes(nil)

// Config is what a Controller works with; all of it is required.
type Config struct {
	Volumes           Volumes
	Client            kubernetes.Interface
	PersistentVolumes coreinformers.PersistentVolumeInformer
	Nodes             coreinformers.NodeInformer
	Recorder          record.EventRecorder
	Metrics           *Metrics
	Clock             clock.WithTicker
}

// Controller labels PersistentVolumes that exist. New makes one, Run runs it once.
type Controller struct {
	Config
	queue workqueue.TypedRateLimitingInterface[string]

	// nodeChanges counts Nodes that appeared or got other labels.
	nodeChanges atomic.Uint64

	mu sync.Mutex
	// notes are about those PersistentVolumes that were looked into.
	notes map[types.UID]*note
}

// New makes a Controller.
func New(c Config) *Controller {
	return &Controller{
		Config: c, notes: map[types.UID]*note{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "persistentvolume_label", Clock: c.Clock}),
	}
}

// Run labels until ctx ends. It returns when no write is under way any more.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	informer := c.PersistentVolumes.Informer()
	registration, err := informer.AddEventHandler(c.handlers())
	if err != nil {
		return fmt.Errorf("watch persistentvolumes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it is there
	nodes := c.Nodes.Informer()
	ofNodes, err := nodes.AddEventHandler(c.nodeHandlers())
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = nodes.RemoveEventHandler(ofNodes) }() // it is there
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced, nodes.HasSynced) {
		return nil
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	for {
		names := c.gather(ctx)
		if ctx.Err() != nil || len(names) == 0 {
			return nil
		}
		c.label(ctx, names)
		for _, name := range names {
			c.queue.Done(name)
		}
	}
}

// gather waits for the next PersistentVolume, and a moment for others. It returns none when
// there will be none any more.
func (c *Controller) gather(ctx context.Context) []string {
	first, ended := c.queue.Get()
	if ended {
		return nil
	}
	timer := time.NewTimer(company)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	names := []string{first}
	for len(names) < batchMost && c.queue.Len() > 0 { // nobody else takes from it
		name, ended := c.queue.Get()
		if ended {
			break
		}
		names = append(names, name)
	}
	return names
}

func (c *Controller) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.seen(obj, false) },
		UpdateFunc: func(old, obj any) {
			before, wasVolume := old.(*corev1.PersistentVolume)
			now, isVolume := obj.(*corev1.PersistentVolume)
			// A resync, which is there to look again.
			c.seen(obj, wasVolume && isVolume && before.ResourceVersion == now.ResourceVersion)
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if object, ok := obj.(*corev1.PersistentVolume); ok {
				c.forget(object.UID)
			}
		},
	}
}

func (c *Controller) nodeHandlers() cache.ResourceEventHandler {
	seen := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			c.appeared(node)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: seen,
		UpdateFunc: func(old, obj any) {
			before, wasNode := old.(*corev1.Node)
			if now, isNode := obj.(*corev1.Node); wasNode && isNode && !maps.Equal(before.Labels, now.Labels) {
				seen(obj)
			}
		},
	}
}

func (c *Controller) seen(obj any, again bool) {
	object, ok := obj.(*corev1.PersistentVolume)
	if !ok || !concerns(object) {
		return
	}
	if again {
		c.reopen(object.UID)
	}
	if !c.settled(object) {
		c.queue.Add(object.Name)
	}
}

// concerns reports whether object may lack something that can be added.
func concerns(object *corev1.PersistentVolume) bool {
	return object.DeletionTimestamp == nil && object.Labels[pv.OptOutLabel] != "true" && pv.Lacks(object)
}

// label decides on the PersistentVolumes and adds what they lack.
func (c *Controller) label(ctx context.Context, names []string) {
	ctx, span := tracing.Start(ctx, "persistentvolumes label")
	defer span.End()
	span.Set(tracing.Volume, names[0])
	span.SetInt(tracing.Count, len(names))
	var asked []*candidate
	var refs []cloud.VolumeRef
	var ready []*candidate
	for _, name := range names {
		switch n := c.candidate(name); {
		case n == nil:
			c.queue.Forget(name)
		case n.trusted:
			ready = append(ready, n)
		default:
			asked, refs = append(asked, n), append(refs, n.ref)
		}
	}
	if len(refs) > 0 {
		ready = append(ready, c.ask(ctx, asked, refs)...)
	}
	klog.FromContext(ctx).V(4).Info("Looked for PersistentVolumes without their place", "seen", len(names), "asked", len(asked), "found", len(ready))
	c.add(ctx, ready)
}
