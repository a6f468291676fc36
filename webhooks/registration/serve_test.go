package registration_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// asked are the names of the objects that reached the webhooks.
type asked struct {
	mu    sync.Mutex
	names map[string]int
}

func (a *asked) Handle(_ context.Context, req admission.Request) admission.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[req.Namespace+"/"+req.Name]++
	return admission.Allowed("")
}

func (a *asked) count(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[name]
}

// serve serves the test webhooks on loopback until stop is called.
func serve(t *testing.T) (s *server.Server, port int, a *asked, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err = server.New(server.Options{Certs: certstest.Source(t, t.TempDir()), Listener: listener, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	a = &asked{names: map[string]int{}}
	for _, w := range testHooks() {
		s.Register(w.Name, w.Path, a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Start(ctx); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-ended }) }
	t.Cleanup(stop)
	return s, listener.Addr().(*net.TCPAddr).Port, a, stop
}

func (c *cluster) createVolume(t *testing.T, name string, labels map[string]string, csi bool) error {
	t.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
	}
	if csi {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}
	} else {
		pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/"}
	}
	_, err := c.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (c *cluster) createMap(t *testing.T, namespace, name string, labels map[string]string) {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), m, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
}

// The API server calls the webhooks by URL and by Service with the CA that was registered,
// and sends only what the selectors and conditions let through.
func TestAPIServerCalls(t *testing.T) {
	c := newCluster(t)
	s, port, a, stop := serve(t)
	for _, ns := range []*corev1.Namespace{namespace("opted-out", map[string]string{"isthmus-cloud.github.io/skip-maps": "true"}), namespace("other", nil)} {
		if _, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err) // no controller would remove them, so they stay
		}
	}
	// A Service of this type leads the API server to loopback, under the Service's name.
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "isthmus-webhook"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}}}} //nolint:gosec // a port
	if _, err := c.CoreV1().Services("kube-system").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.CoreV1().Services("kube-system").Delete(context.Background(), svc.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for form, change := range map[string]func(*registration.Options){
		"url":     func(o *registration.Options) { o.URL = fmt.Sprintf("https://127.0.0.1:%d", port) },
		"service": func(o *registration.Options) { o.ServicePort = port },
	} {
		t.Run(form, func(t *testing.T) {
			r := c.start(t, func(o *registration.Options, _ *replica) { change(o); o.CABundle = s.CABundle })
			r.settle(t)
			eventually.True(t, "PersistentVolumes are sent", func() bool {
				return c.createVolume(t, "sent-by-"+form, nil, true) == nil && a.count("/sent-by-"+form) > 0
			})
			eventually.True(t, "ConfigMaps are sent", func() bool { c.createMap(t, "other", form, nil); return a.count("other/"+form) > 0 })
			for name, create := range map[string]func(name string){
				"/opted-out": func(name string) {
					_ = c.createVolume(t, name, map[string]string{"isthmus-cloud.github.io/skip-volumes": "true"}, true)
				},
				"/not-matching": func(name string) { _ = c.createVolume(t, name, nil, false) },
				"other/opted-out": func(name string) {
					c.createMap(t, "other", name, map[string]string{"isthmus-cloud.github.io/skip-maps": "true"})
				},
				"opted-out/any":   func(name string) { c.createMap(t, "opted-out", name, nil) },
				"kube-system/any": func(name string) { c.createMap(t, "kube-system", name, nil) },
			} {
				_, object, _ := strings.Cut(name, "/")
				create(object)
				if n := a.count(name); n != 0 {
					t.Errorf("%s was sent %d times", name, n)
				}
			}
			if err := c.createVolume(t, "label-with-other-value", map[string]string{"isthmus-cloud.github.io/skip-volumes": "false"}, true); err != nil || a.count("/label-with-other-value") == 0 {
				t.Errorf("a label with another value keeps an object away (error %v)", err)
			}
			r.stop()
		})
	}
	stop()
	testPolicies(t, c, port, s)
}

// testPolicies: nobody serves any more.
func testPolicies(t *testing.T, c *cluster, port int, s *server.Server) {
	start := func(policy string) *replica {
		r := c.start(t, func(o *registration.Options, _ *replica) {
			o.URL, o.CABundle, o.FailurePolicies = fmt.Sprintf("https://127.0.0.1:%d", port), s.CABundle, []string{policy}
		})
		r.settle(t)
		return r
	}
	start("Ignore").stop()
	eventually.True(t, "Ignore lets a PersistentVolume pass", func() bool { return c.createVolume(t, "ignored", nil, true) == nil })
	start("volumes=Fail").stop()
	var err error
	eventually.True(t, "Fail refuses a PersistentVolume", func() bool { err = c.createVolume(t, "failed", nil, true); return err != nil })
	if !strings.Contains(err.Error(), `failed calling webhook "volumes.isthmus-cloud.github.io"`) {
		t.Errorf("the refusal: %v", err)
	}
	c.createMap(t, "other", "ignored", nil)
}
