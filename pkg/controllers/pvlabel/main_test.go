package pvlabel_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// thePlane is the real API server of all tests. ServiceAccount is what envtest turns off;
// without the other plugin, nothing would let go of a PersistentVolume that is deleted.
var thePlane = controlplane.Shared{Options: controlplane.Options{APIServerArgs: map[string][]string{
	"disable-admission-plugins": {"ServiceAccount", "StorageObjectInUseProtection"},
}}}

func TestMain(m *testing.M) { thePlane.Main(m) }

// cluster is the API server as one test sees it, beside a simulated OpenStack.
type cluster struct {
	t      *testing.T
	config *rest.Config
	client *kubernetes.Clientset
	sim    *ossim.Sim
	cloud  *decorate.Provider
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	plane := thePlane.Plane(t)
	c := &cluster{t: t, config: plane.Config, client: plane.Client}
	t.Cleanup(c.empty)
	c.sim = ossim.ForTest(t)
	p, _, err := openstack.New(t.Context(), c.sim.ConfFile(t, ""), cloud.Options{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if c.cloud, err = decorate.New(p, caller.Options{Reads: caller.Policy{Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cloud.Close)
	return c
}

// empty leaves nothing for the next test.
func (c *cluster) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	core, all, now := c.client.CoreV1(), metav1.ListOptions{}, metav1.DeleteOptions{}
	for what, err := range map[string]error{
		"PersistentVolumes": core.PersistentVolumes().DeleteCollection(ctx, now, all),
		"Nodes":             core.Nodes().DeleteCollection(ctx, now, all),
		"Events":            core.Events("default").DeleteCollection(ctx, now, all),
		"VolumeAttachments": c.client.StorageV1().VolumeAttachments().DeleteCollection(ctx, now, all),
	} {
		if err != nil {
			c.t.Errorf("remove %s: %v", what, err)
		}
	}
}

func volume(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: source,
		},
	}
}

func static(name, id string) *corev1.PersistentVolume {
	return volume(name, corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: id}})
}

func staticCSI(name, id string) *corev1.PersistentVolume {
	return volume(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id}})
}

func (c *cluster) create(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	c.t.Helper()
	pv, err := c.client.CoreV1().PersistentVolumes().Create(c.t.Context(), pv, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pv
}

func (c *cluster) get(name string) *corev1.PersistentVolume {
	c.t.Helper()
	pv, err := c.client.CoreV1().PersistentVolumes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pv
}

func (c *cluster) node(name string, labels map[string]string) {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.client.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// events are the reasons of all events about the PersistentVolume, with their texts.
func (c *cluster) events(pv string) map[string][]string {
	c.t.Helper()
	list, err := c.client.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pv})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, e := range list.Items {
		for range max(e.Count, 1) {
			out[e.Reason] = append(out[e.Reason], e.Message)
		}
	}
	return out
}

// transport counts the writes of PersistentVolumes, and lets a test act before one.
type transport struct {
	next   http.RoundTripper
	before func(r *http.Request)

	mu      sync.Mutex
	patches map[string]int // by path
	others  []string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	switch {
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/persistentvolumes/"):
		t.patches[r.URL.Path]++
	default:
		t.others = append(t.others, r.Method+" "+r.URL.Path)
	}
	t.mu.Unlock()
	if t.before != nil {
		t.before(r)
	}
	return t.next.RoundTrip(r)
}

func (t *transport) count() (objects, patches int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.patches {
		patches += n
	}
	return len(t.patches), patches
}

// run starts the controller as a term of leadership does. stop ends it and waits.
func (c *cluster) run(before func(*http.Request)) (counted *transport, stop func()) {
	c.t.Helper()
	return c.runBy(clock.RealClock{}, before)
}

// runBy is run with a clock.
func (c *cluster) runBy(clk clock.WithTicker, before func(*http.Request)) (counted *transport, stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	counted = &transport{before: before, patches: map[string]int{}}
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.next = next; return counted })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := pvlabel.NewMetrics(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(c.client, 0)
	core := factory.Core().V1()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	controller := pvlabel.New(pvlabel.Config{
		Volumes: c.cloud.Volumes, Client: client, PersistentVolumes: core.PersistentVolumes(), Nodes: core.Nodes(),
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: pvlabel.Name}), Metrics: m, Clock: clk,
	})
	core.PersistentVolumes().Informer()
	core.Nodes().Informer()
	factory.StartWithContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
	})
	c.t.Cleanup(stop)
	return counted, stop
}
