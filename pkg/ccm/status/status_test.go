package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// sourceOf has these objects and no metrics.
func sourceOf(t *testing.T, objects ...any) Source {
	t.Helper()
	index := func() cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil) }
	nodes, services, volumes := index(), index(), index()
	for _, o := range objects {
		to := nodes
		switch o.(type) {
		case *corev1.Service:
			to = services
		case *corev1.PersistentVolume:
			to = volumes
		}
		if err := to.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return Source{
		Leader: func() (string, bool) { return "me", true }, Now: func() time.Time { return noon }, Errors: NewErrors(func() time.Time { return noon }),
		Nodes: corelisters.NewNodeLister(nodes), Services: corelisters.NewServiceLister(services), Volumes: corelisters.NewPersistentVolumeLister(volumes),
		Metrics: prometheus.NewRegistry(),
	}
}

func ask(s Source, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, httptest.NewRequest(method, target, http.NoBody))
	return w
}

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "test:///" + name}}
	if change != nil {
		change(n)
	}
	return n
}

func uninitialized(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
}

func routed(status corev1.ConditionStatus, reason string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.0.0.0/24"}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason}}
	}
}

func balancer(name string, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	if change != nil {
		change(s)
	}
	return s
}

func volume(name string, labels map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// rows are objects as "namespace/name detail: state", with a ! where they wait.
func rows(l List[Object]) (out []string) {
	for _, o := range l.Items {
		text := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") + " " + o.Detail + ": " + o.State
		if o.Waits {
			text += "!"
		}
		out = append(out, text)
	}
	return out
}

func TestStatesOfObjects(t *testing.T) {
	class, zone, region := "mine", corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	s := sourceOf(t,
		node("done", routed(corev1.ConditionFalse, "RouteCreated")), node("new", uninitialized),
		node("off", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintNodeShutdown}} }),
		node("mine", func(n *corev1.Node) { uninitialized(n); n.Labels = map[string]string{cloud.ExcludeNode: "true"} }),
		node("foreign", func(n *corev1.Node) { uninitialized(n); n.Spec.PodCIDRs = []string{"10.0.9.0/24"} }),
		node("unrouted", routed(corev1.ConditionTrue, "NoRouteCreated")), node("plugin", routed(corev1.ConditionFalse, "CiliumIsUp")),
		balancer("inside", func(v *corev1.Service) { v.Spec.Type = corev1.ServiceTypeClusterIP }), balancer("new", nil),
		balancer("classed", func(v *corev1.Service) { v.Spec.LoadBalancerClass = &class }),
		balancer("served", func(v *corev1.Service) {
			v.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}
		}),
		balancer("going", func(v *corev1.Service) { v.DeletionTimestamp = &metav1.Time{Time: noon} }),
		volume("bare", nil), volume("zoned", map[string]string{zone: "az1"}), volume("kept", map[string]string{pv.OptOutLabel: "true"}), volume("others", nil),
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "placed", Labels: map[string]string{zone: "az1", region: "r"}}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{}}},
	)
	s.Owns = func(n *corev1.Node) bool { return n.Name != "foreign" }
	s.Labels = func(v *corev1.PersistentVolume) bool { return v.Name != "others" }
	s.Routes = true
	got := s.Take()
	for what, d := range map[string]string{
		"nodes": cmp.Diff([]string{"new test:///new: waits for the cloud's data!", "done test:///done: initialized", "foreign test:///foreign: another cloud's",
			"mine test:///mine: left alone: it has the label " + cloud.ExcludeNode, "off test:///off: shut down", "plugin test:///plugin: initialized", "unrouted test:///unrouted: initialized"}, rows(got.Nodes)),
		"load balancers": cmp.Diff([]string{"a/classed : waits for an address, of class mine!", "a/going : is being deleted!", "a/new : waits for an address!", "a/served lb.example: has an address"}, rows(got.LoadBalancers)),
		"routes":         cmp.Diff([]string{"plugin 10.0.0.0/24: waits for its route!", "unrouted 10.0.0.0/24: waits for its route!", "done 10.0.0.0/24: routed"}, rows(got.Routes)),
		"volumes": cmp.Diff([]string{"bare : lacks its zone, its region, node affinity!", "kept : left alone: it has the label " + pv.OptOutLabel, "placed az1 r: has its place",
			"zoned az1: lacks its region, node affinity"}, rows(got.Volumes)),
	} {
		if d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	if s.Routes = false; s.Take().Routes.Total != 0 {
		t.Error("routes are listed although nobody makes any")
	}
}

func TestPageEscapesWhatOthersWrite(t *testing.T) {
	hostile := "<b>\"'&"
	object := bounded([]Object{{Namespace: hostile, Name: hostile, Detail: hostile, State: hostile}}, func(Object) bool { return true })
	metric := bounded([]Metric{{Metric: hostile, Labels: hostile}}, func(Metric) bool { return false })
	shown := page(&Snapshot{Version: hostile, Leader: hostile, Nodes: object, LoadBalancers: object, Routes: object, Volumes: object,
		Queues:  bounded([]Queue{{Name: hostile}}, func(Queue) bool { return false }),
		Traffic: bounded([]Family{{Family: hostile, Place: hostile}}, func(Family) bool { return false }), Webhooks: metric, Metrics: metric,
		Errors: bounded([]Error{{Object: hostile, Reason: hostile, Message: hostile}}, func(Error) bool { return false })})
	if n := strings.Count(shown, "&lt;b&gt;&#34;&#39;&amp;"); n != 2+4*4+1+2+2*2+3 || strings.Contains(shown, "<b>") {
		t.Errorf("%d texts are escaped: %s", n, shown)
	}
	w := ask(sourceOf(t, balancer("<script>alert(1)</script>", nil)), http.MethodGet, "/status")
	if body := w.Body.String(); strings.Contains(body, "<script") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("the page has others' markup: %s", body)
	}
	asJSON := ask(sourceOf(t, balancer("<script>alert(1)</script>", nil)), http.MethodGet, "/status?format=json")
	if asJSON.Header().Get("Content-Type") != "application/json" || strings.Contains(asJSON.Body.String(), "<script") {
		t.Errorf("as JSON it is %s: %s", asJSON.Header().Get("Content-Type"), asJSON.Body)
	}
	for _, h := range []http.Header{w.Header(), asJSON.Header()} {
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "script-src") {
			t.Errorf("Content-Security-Policy is %q", csp)
		}
		// What a browser does not guess, keep or tell others.
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestLargeClusterIsBounded(t *testing.T) {
	var objects []any
	for i := range 5000 {
		n := node(fmt.Sprintf("node-%05d", i), routed(corev1.ConditionFalse, "RouteCreated"))
		if n.Spec.ProviderID = strings.Repeat("x", 1<<16); i == 4999 {
			uninitialized(n)
		}
		objects = append(objects, n)
	}
	s := sourceOf(t, objects...)
	s.Routes = true
	w := ask(s, http.MethodGet, "/status?format=json")
	var got Snapshot
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := got.Nodes; n.Total != 5000 || len(n.Items) != maxRows || n.More != 4500 || n.Waiting != 1 || n.Items[0].Name != "node-04999" {
		t.Errorf("got %d of %d Nodes, %d more, %d wait", len(n.Items), n.Total, n.More, n.Waiting)
	}
	page := ask(s, http.MethodGet, "/status").Body
	if page.Len() > 512<<10 || !strings.Contains(page.String(), "and 4500 more") {
		t.Errorf("the page has %d bytes", page.Len())
	}
}

func TestErrorsAreBoundedByKind(t *testing.T) {
	now := noon
	s := sourceOf(t)
	s.Errors = NewErrors(func() time.Time { now = now.Add(time.Second); return now })
	s.Errors.Add("service/a/web", "SyncLoadBalancerFailed", "quota")
	s.Errors.Add("service/a/web", "SyncLoadBalancerFailed", "quota\x1b[31m\n"+strings.Repeat("x", 1<<20))
	for i := range 5000 {
		s.Errors.Add(fmt.Sprintf("node/%d", i), "Unavailable", "no answer")
	}
	got := s.Take().Errors
	if got.Total != maxErrors+1 || got.Items[0].Object != "node/4999" || got.Items[maxErrors-1].Object != "node/4950" {
		t.Fatalf("%d errors, the first %+v", got.Total, got.Items[0])
	}
	last := got.Items[maxErrors]
	if last.Object != "service/a/web" || last.Count != 2 || !strings.HasPrefix(last.Message, "quota [31m xxx") || len(last.Message) > maxMessage+len("…") {
		t.Errorf("the Service's is %+v", last)
	}
	var none *Errors
	none.Add("node/a", "b", "c")
	if none.list().Total != 0 {
		t.Error("nil keeps something")
	}
}

func TestMetricsThatTellSomething(t *testing.T) {
	r := prometheus.NewRegistry()
	gauge := func(name string, value float64, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "-", ConstLabels: labels})
		g.Set(value)
		r.MustRegister(g)
	}
	gauge(queueDepth, 7, prometheus.Labels{"name": "service"})
	gauge(queueLongest, 61.2, prometheus.Labels{"name": "service"})
	gauge("isthmus_cloud_nodes_held", 3, nil)
	gauge("isthmus_cloud_node_deletion_brake", 0, nil)
	gauge("isthmus_webhook_registration_up_to_date", 0, prometheus.Labels{"kind": "mutating"})
	gauge("isthmus_webhook_certificate_expiration_timestamp_seconds", float64(noon.Unix()), nil)
	answered := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "isthmus_webhook_request_duration_seconds", Help: "-"})
	answered.Observe(1)
	r.MustRegister(answered)
	s := sourceOf(t)
	s.Metrics = r
	until := noon.Add(time.Minute)
	s.Traffic = func() []caller.Family {
		return []caller.Family{{Name: "compute", Place: "r1", PerSecond: 2}, {Name: "network", Place: "r1", Limit: 4.5}, {Name: "octavia", Place: "r1", ShutUntil: until}}
	}
	got := s.Take()
	for what, d := range map[string]string{
		"queues":   cmp.Diff(List[Queue]{Total: 1, Waiting: 1, Items: []Queue{{"service", 7, 61.2}}}, got.Queues),
		"metrics":  cmp.Diff([]Metric{{Metric: "isthmus_cloud_nodes_held", Value: 3}}, got.Metrics.Items),
		"webhooks": cmp.Diff([]Metric{{"isthmus_webhook_certificate_expiration_timestamp_seconds", "", float64(noon.Unix())}, {"isthmus_webhook_registration_up_to_date", "kind=mutating", 0}, {"isthmus_webhook_request_duration_seconds_count", "", 1}}, got.Webhooks.Items),
		"traffic": cmp.Diff(List[Family]{Total: 3, Waiting: 2, Items: []Family{{Family: "network", Place: "r1", Limit: 4.5}, {Family: "octavia", Place: "r1", ShutUntil: &until},
			{Family: "compute", Place: "r1", PerSecond: 2}}}, got.Traffic),
	} {
		if d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	shown := page(&got)
	for _, want := range []string{"2026-01-02T12:00:00Z</td>", "throttled until 2026-01-02T12:01:00Z", "at most 4 a second, after it throttled", "<td class=\"waits\" data-column=\"Longest under way\">1m1s</td>"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// What is looked for by name is there under that name.
func TestMetricsAreThoseOfTheReference(t *testing.T) {
	reference, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{queueDepth + "`", queueLongest + "`", ofWebhooks}, ofControllers...) {
		if !strings.Contains(string(reference), "\n| `"+name) {
			t.Errorf("docs/reference/metrics.md has no metric %s", name)
		}
	}
}

func TestOnlyReads(t *testing.T) {
	if w := ask(sourceOf(t), http.MethodPost, "/status"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST answers %d", w.Code)
	}
	empty := Source{Leader: func() (string, bool) { return "", true }, Now: time.Now}
	if w := ask(empty, http.MethodGet, "/status"); w.Code != http.StatusOK {
		t.Errorf("without caches: %d", w.Code)
	}
}

// Each answer costs a look at all objects: who asks too often waits.
func TestRequestsAreBounded(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	s := sourceOf(t)
	s.Leader = func() (string, bool) { enter <- struct{}{}; <-leave; return "", true }
	h := Handler(s)
	codes := make(chan int)
	serve := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", http.NoBody))
		codes <- w.Code
	}
	for range maxRequests {
		go serve()
		<-enter
	}
	go serve()
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("one too many got %d", code)
	}
	close(leave)
	for range maxRequests {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one got %d", code)
		}
	}
}

// Who reads a page keeps as much of it as a replica would write, whatever it is sent: an answer of 8 MB would need 1 GB.
func TestReadersKeepWhatAReplicaShows(t *testing.T) {
	const many = 1_000_000
	body := `{"leader":"a","nodes":{"total":3,"waiting":1},"volumes":{"items":null},"errors":{"more":2,"items":[{"message":"x"},` + strings.Repeat("{},", many) + `{}]}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var s Snapshot
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := len(s.Errors.Items); n != maxRows || s.Errors.More != 2+1+many+1-maxRows || s.Errors.Items[0].Message != "x" || s.Nodes.Total != 3 || s.Nodes.Waiting != 1 {
		t.Errorf("%d items of errors, %d more; Nodes are %+v", n, s.Errors.More, s.Nodes)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 40 {
		t.Errorf("%d MB are allocated for %d", used, len(body)>>20)
	}
	for _, bad := range []string{`{"nodes":{"items":[1]}}`, `{"nodes":{"total":"x"}}`, `{"nodes":[]}`} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s is a status", bad)
		}
	}
	if text, err := json.Marshal(List[Error]{}); err != nil || string(text) != `{"total":0,"waiting":0,"more":0,"items":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}
