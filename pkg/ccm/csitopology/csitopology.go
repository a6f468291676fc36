// Package csitopology leaves a CSI driver's topology key out of volumes where the driver does not run with it.
package csitopology

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// syncWait is how long the backfill waits at its start for CSINodes, which it may not be allowed to read.
const syncWait = 10 * time.Second

// Volumes are the cloud's volumes in a cluster whose CSI driver may run without topology: no Node has its
// topology key then, and a PersistentVolume with node affinity for that could never be used. So the key is left
// out unless all CSINodes of the driver have it, and there is one; what is left is the general key of zones,
// which Nodes have from us. While CSINodes are not known, it is left out as well: that holds in any case.
type Volumes struct {
	cloud.Volumes
	mode    string
	factory informers.SharedInformerFactory
	nodes   storagelisters.CSINodeLister
	synced  cache.InformerSynced

	changed atomic.Bool // since keys were counted
	mu      sync.Mutex
	keys    map[string]driverKeys
}

// driverKeys are on how many Nodes a driver runs, and on how many with each topology key.
type driverKeys struct {
	nodes int
	with  map[string]int
}

// New returns volumes as these are used in the cluster. The informer runs with Run.
func New(volumes cloud.Volumes, mode string, client kubernetes.Interface) (*Volumes, error) {
	var drivers []string
	for _, s := range volumes.Sources() {
		drivers = append(drivers, s.Driver)
	}
	t := &Volumes{Volumes: volumes, mode: mode}
	t.changed.Store(true)
	t.factory = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(keepDrivers(drivers)))
	csiNodes := t.factory.Storage().V1().CSINodes()
	informer := csiNodes.Informer()
	t.nodes, t.synced = csiNodes.Lister(), informer.HasSynced
	count := func() { t.changed.Store(true) }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { count() }, UpdateFunc: func(any, any) { count() }, DeleteFunc: func(any) { count() },
	}); err != nil {
		return nil, fmt.Errorf("watch csinodes: %w", err)
	}
	return t, nil
}

// keepDrivers keeps of a CSINode what is read of it.
func keepDrivers(drivers []string) cache.TransformFunc {
	return func(obj any) (any, error) {
		node, ok := obj.(*storagev1.CSINode)
		if !ok {
			return obj, nil
		}
		kept := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
		for _, d := range node.Spec.Drivers {
			if slices.Contains(drivers, d.Name) {
				kept.Spec.Drivers = append(kept.Spec.Drivers, storagev1.CSINodeDriver{Name: d.Name, TopologyKeys: d.TopologyKeys})
			}
		}
		return kept, nil
	}
}

// Run follows CSINodes until ctx ends.
func (t *Volumes) Run(ctx context.Context) error {
	if t.mode == options.CSITopologyAuto {
		t.factory.StartWithContext(ctx)
		defer t.factory.Shutdown()
	}
	<-ctx.Done()
	return nil
}

// Wait waits until CSINodes are known, or for a while.
func (t *Volumes) Wait(ctx context.Context) {
	if t.mode != options.CSITopologyAuto {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), t.synced)
}

// Ref implements cloud.Volumes.
func (t *Volumes) Ref(object *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	ref, ok, err := t.Volumes.Ref(object)
	if ref.TopologyKey != "" && (object.Spec.CSI == nil || !t.uses(object.Spec.CSI.Driver, ref.TopologyKey)) {
		ref.TopologyKey = ""
	}
	return ref, ok, err
}

// uses reports whether a driver runs with a topology key.
func (t *Volumes) uses(driver, key string) bool {
	if t.mode != options.CSITopologyAuto {
		return t.mode == options.CSITopologyAlways
	}
	if !t.synced() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed.Swap(false) {
		t.count()
	}
	d := t.keys[driver]
	return d.nodes > 0 && d.with[key] == d.nodes
}

// count counts anew; t.mu is held.
func (t *Volumes) count() {
	t.keys = map[string]driverKeys{}
	all, err := t.nodes.List(labels.Everything())
	if err != nil {
		return // a cache has no errors
	}
	for _, node := range all {
		for _, driver := range node.Spec.Drivers {
			d := t.keys[driver.Name]
			if d.with == nil {
				d.with = map[string]int{}
			}
			d.nodes++
			for _, key := range driver.TopologyKeys {
				d.with[key]++
			}
			t.keys[driver.Name] = d
		}
	}
}
