package csitopology

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const (
	testDriver = "csi.example.com"
	testKey    = "topology.csi.example.com/zone"
)

// ownVolumes are those of a cloud whose CSI driver has a topology key.
type ownVolumes struct{ cloud.Volumes }

func (ownVolumes) Sources() []cloud.VolumeSource {
	return []cloud.VolumeSource{{Field: "csi", Driver: testDriver, NameField: "volumeHandle"}}
}

func (ownVolumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	return cloud.VolumeRef{ID: "v", TopologyKey: testKey}, pv.Spec.CSI != nil, nil
}

func csiNode(name, driver string, keys ...string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"much": strings.Repeat("x", 1000)}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: name, TopologyKeys: keys}, {Name: "other.example.com", NodeID: name, TopologyKeys: []string{"other/zone"}}}},
	}
}

// The driver's topology key is required only where each of its Nodes has it; no question of ours is a call.
func TestCSITopologyFollowsCSINodes(t *testing.T) {
	plane := controlplane.Start(t)
	var calls atomic.Int64
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			calls.Add(1)
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := New(ownVolumes{}, options.CSITopologyAuto, client)
	if err != nil {
		t.Fatal(err)
	}
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: testDriver}}}}
	key := func() string {
		t.Helper()
		ref, ok, err := topology.Ref(pv)
		if err != nil || !ok || ref.ID != "v" {
			t.Fatalf("%+v, %v, %v", ref, ok, err)
		}
		return ref.TopologyKey
	}
	if got := key(); got != "" {
		t.Errorf("before CSINodes are known: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- topology.Run(ctx) }()
	topology.Wait(ctx)
	if !topology.synced() {
		t.Fatal("CSINodes are not known")
	}
	if got := key(); got != "" {
		t.Errorf("without CSINodes: %q", got)
	}
	nodes := plane.Client.StorageV1().CSINodes()
	create := func(n *storagev1.CSINode) {
		t.Helper()
		if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(when, want string) {
		t.Helper()
		eventually.True(t, "the key "+want+" "+when, func() bool { return key() == want })
	}
	create(csiNode("elsewhere", "another.example.com", testKey))
	create(csiNode("without", testDriver))
	eventually.True(t, "both are seen", func() bool { return len(topology.factory.Storage().V1().CSINodes().Informer().GetStore().List()) == 2 })
	if got := key(); got != "" {
		t.Errorf("a driver without topology: %q", got)
	}
	create(csiNode("with", testDriver, "other/zone", testKey))
	eventually.True(t, "three are seen", func() bool { return len(topology.factory.Storage().V1().CSINodes().Informer().GetStore().List()) == 3 })
	if got := key(); got != "" {
		t.Errorf("one of two Nodes has it: %q", got)
	}
	if err := nodes.Delete(t.Context(), "without", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("when all have it", testKey)
	for _, obj := range topology.factory.Storage().V1().CSINodes().Informer().GetStore().List() {
		if n := obj.(*storagev1.CSINode); len(n.Annotations) != 0 || len(n.Spec.Drivers) > 1 {
			t.Errorf("more than is read is kept: %+v", n)
		}
	}
	before := calls.Load()
	for range 1000 {
		key()
	}
	if n := calls.Load() - before; n != 0 {
		t.Errorf("%d calls for 1000 questions", n)
	}
	create(csiNode("new", testDriver))
	becomes("when one has it no more", "")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What the flag says needs no CSINodes.
func TestCSITopologyIsConfigurable(t *testing.T) {
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: testDriver}}}}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{options.CSITopologyAlways: testKey, options.CSITopologyNever: ""} {
		topology, err := New(ownVolumes{}, mode, client)
		if err != nil {
			t.Fatal(err)
		}
		topology.Wait(t.Context()) // for nothing
		if ref, ok, err := topology.Ref(pv); err != nil || !ok || ref.TopologyKey != want {
			t.Errorf("%s: %+v, %v, %v", mode, ref, ok, err)
		}
	}
}
