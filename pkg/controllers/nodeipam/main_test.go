package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// thePlane is the real API server of all tests.
var thePlane controlplane.Shared

func TestMain(m *testing.M) { thePlane.Main(m) }

// cluster is the API server as one test sees it: without Nodes at the beginning and the end.
type cluster struct {
	t      *testing.T
	config *rest.Config
	client kubernetes.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	plane := thePlane.Plane(t)
	c := &cluster{t: t, config: plane.Config, client: plane.Client}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Errorf("remove Nodes: %v", err)
		}
	})
	return c
}

func (c *cluster) create(name string, cidrs ...string) *corev1.Node {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	n, err := c.client.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	if err := c.client.CoreV1().Nodes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// podCIDRs are the CIDRs of all Nodes, joined, by the Node's name.
func (c *cluster) podCIDRs() map[string]string {
	c.t.Helper()
	list, err := c.client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range list.Items {
		out[n.Name] = strings.Join(n.Spec.PodCIDRs, ",")
	}
	return out
}

// wantAll waits until that many Nodes are there, all with CIDRs, and fails when two share one.
func (c *cluster) wantAll(count int) map[string]string {
	c.t.Helper()
	var got map[string]string
	eventually.Met(c.t, func() string {
		got = c.podCIDRs()
		none := 0
		owner := map[string]string{}
		for name, cidrs := range got {
			if cidrs == "" {
				none++
				continue
			}
			for cidr := range strings.SplitSeq(cidrs, ",") {
				if other, taken := owner[cidr]; taken {
					c.t.Fatalf("%s and %s both have %s", other, name, cidr)
				}
				owner[cidr] = name
			}
		}
		if none > 0 || len(got) != count {
			return fmt.Sprintf("%d Nodes, of which %d have no CIDR; want %d", len(got), none, count)
		}
		return ""
	})
	return got
}

// wantEvent waits for an event about the Node.
func (c *cluster) wantEvent(node, reason, text string) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		list, err := c.client.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + node})
		if err != nil {
			c.t.Fatal(err)
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return ""
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Sprintf("no event %s with %q about %s, but %q", reason, text, node, seen)
	})
}

// hasEvent reports whether there is such an event about the Node now.
func (c *cluster) hasEvent(node, reason string) bool {
	c.t.Helper()
	n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	list, err := c.client.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(n.UID) + ",reason=" + reason})
	if err != nil {
		c.t.Fatal(err)
	}
	return len(list.Items) > 0
}

// transport lets a test see and disturb requests.
type transport struct {
	next http.RoundTripper
	// disturb may answer in place of the API server, after having asked it or not.
	disturb func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error)

	mu      sync.Mutex
	patches int
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ask := func() (*http.Response, error) { return t.next.RoundTrip(r) }
	if r.Method != http.MethodPatch || strings.Contains(r.URL.Path, "/events/") {
		return ask()
	}
	t.mu.Lock()
	t.patches++
	t.mu.Unlock()
	if t.disturb == nil {
		return ask()
	}
	return t.disturb(r, ask)
}

func (t *transport) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.patches
}

var errLost = errors.New("the answer was lost")

// run starts a controller as a term of leadership does. stop ends it and waits.
func (c *cluster) run(config Config, t *transport, nodes informers.SharedInformerFactory) (controller *Controller, stop func()) {
	c.t.Helper()
	if errs := config.Validate(); len(errs) > 0 {
		c.t.Fatal(errs)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg := rest.CopyConfig(c.config)
	if t != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { t.next = next; return t })
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := NewMetrics(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if nodes == nil {
		nodes = informers.NewSharedInformerFactory(c.client, 0)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	controller = New(Cluster{client, nodes.Core().V1().Nodes(), broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "cidrAllocator"})}, config, m)
	ended := make(chan error, 1)
	nodes.Core().V1().Nodes().Informer()
	nodes.StartWithContext(ctx)
	go func() { ended <- controller.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		broadcaster.Shutdown()
		nodes.Shutdown()
	})
	c.t.Cleanup(stop)
	return controller, stop
}
