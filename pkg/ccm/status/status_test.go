package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// source has n Nodes, the last of which waits, and one Service that waits, with hostile names.
func source(t *testing.T, n int) Source {
	t.Helper()
	nodes, services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	add := func(to cache.Indexer, o any) {
		if err := to.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}, Spec: corev1.NodeSpec{ProviderID: strings.Repeat("x", 1<<16)}}
		if i == n-1 {
			o.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
		}
		add(nodes, o)
	}
	add(services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: `<script>alert(1)</script>`}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	})
	add(services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "inside"}})
	held := prometheus.NewGauge(prometheus.GaugeOpts{Name: "isthmus_cloud_nodes_held", Help: "-"})
	held.Set(3)
	registry := prometheus.NewRegistry()
	registry.MustRegister(held)
	return Source{
		Leader: func() (string, bool) { return `"><img src=x onerror=alert(1)>`, false },
		Nodes:  corelisters.NewNodeLister(nodes), Services: corelisters.NewServiceLister(services), Metrics: registry,
	}
}

func ask(s Source, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, httptest.NewRequest(method, target, http.NoBody))
	return w
}

func TestPageEscapesWhatOthersWrite(t *testing.T) {
	w := ask(source(t, 1), http.MethodGet, "/status")
	body := w.Body.String()
	if strings.Contains(body, "<script") || strings.Contains(body, "<img") {
		t.Errorf("the page has others' markup: %s", body)
	}
	// A Node's provider ID and a load balancer's host name are texts of others, too.
	hostile := "<b>\"'&"
	shown := page(&snapshot{Version: hostile, Leader: hostile, Nodes: bounded([]node{{Name: hostile, ProviderID: hostile, State: hostile}}, func(node) bool { return false }),
		LoadBalancers: bounded([]balancer{{Namespace: hostile, Name: hostile, Address: hostile, State: hostile}}, func(balancer) bool { return false }),
		Cloud:         bounded([]cloudState{{Metric: hostile, Labels: hostile}}, func(cloudState) bool { return false })})
	if n := strings.Count(shown, "&lt;b&gt;&#34;&#39;&amp;"); n != 11 || strings.Contains(shown, "<b>") {
		t.Errorf("%d texts of 11 are escaped: %s", n, shown)
	}
	for _, want := range []string{"&lt;script&gt;", "&lt;img", "This replica is a standby"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "script-src") {
		t.Errorf("Content-Security-Policy is %q", csp)
	}
}

func TestLargeClusterIsBounded(t *testing.T) {
	s := source(t, 5000)
	w := ask(s, http.MethodGet, "/status?format=json")
	var got snapshot
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := got.Nodes; n.Total != 5000 || len(n.Items) != maxRows || n.More != 4500 || n.Waiting != 1 || n.Items[0].Name != "node-04999" {
		t.Errorf("got %d of %d Nodes, %d more, %d wait", len(n.Items), n.Total, n.More, n.Waiting)
	}
	if b := got.LoadBalancers; b.Total != 1 || b.Waiting != 1 {
		t.Errorf("got %+v", b)
	}
	if c := got.Cloud; len(c.Items) != 1 || c.Items[0].Value != 3 {
		t.Errorf("got %+v", c)
	}
	page := ask(s, http.MethodGet, "/status").Body
	if page.Len() > 512<<10 || !strings.Contains(page.String(), "and 4500 more") {
		t.Errorf("the page has %d bytes", page.Len())
	}
}

func TestOnlyReads(t *testing.T) {
	if w := ask(source(t, 1), http.MethodPost, "/status"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST answers %d", w.Code)
	}
	if w := ask(Source{Leader: func() (string, bool) { return "", true }, Metrics: prometheus.NewRegistry()}, http.MethodGet, "/status"); w.Code != http.StatusOK {
		t.Errorf("without caches: %d", w.Code)
	}
}
