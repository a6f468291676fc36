package orphans

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// supervisor is a world whose cloud is a namespace of a Supervisor, which the same API server stands for.
func supervisor(t *testing.T, namespace string) (*world, *paravirtual.World) {
	t.Helper()
	w := &world{ControlPlane: shared.Plane(t), t: t}
	w.must(paravirtual.InstallCRDs(t.Context(), w.ControlPlane))
	dir := t.TempDir()
	there, err := paravirtual.New(t.Context(), w.ControlPlane, dir, namespace)
	w.must(err)
	t.Cleanup(there.Close)
	w.reach("vsphere-paravirtual", filepath.Join(dir, "cloud.yaml"), "guest")
	return w, there
}

// names are the names of the objects that are left.
func names(t *testing.T, there *paravirtual.World) (out []string) {
	t.Helper()
	all, err := there.Objects(paravirtual.VMServices).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		out = append(out, all.Items[i].GetName())
	}
	return out
}

// TestSupervisorsOrphans: what carries the guest cluster's labels and has no Service; never another cluster's, nor what names no Service.
func TestSupervisorsOrphans(t *testing.T) {
	w, there := supervisor(t, "orphans-some")
	w.service("stays")
	w.made(w.cluster, "stays")
	w.made(w.cluster, "gone")
	w.made(w.cluster, "adopted")
	change := func(name string, edit func(*unstructured.Unstructured)) {
		t.Helper()
		objects := there.Objects(paravirtual.VMServices)
		obj, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		w.must(err)
		edit(obj)
		obj.SetFinalizers(nil)
		obj.SetResourceVersion("")
		obj.SetUID("")
		_, err = objects.Create(t.Context(), obj, metav1.CreateOptions{})
		w.must(err)
	}
	all := names(t, there)
	label := func(obj *unstructured.Unstructured, key, value string) {
		labels := obj.GetLabels()
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
		obj.SetLabels(labels)
	}
	const uid, service = "isthmus-cloud.github.io/cluster-uid", "run.tanzu.vmware.com/service.name"
	owner := there.Owner
	owner.UID = types.UID("99999999-2222-4333-8444-555555555555")
	for name, edit := range map[string]func(*unstructured.Unstructured){
		"control-plane": func(o *unstructured.Unstructured) { label(o, service, "") },
		"other-uid":     func(o *unstructured.Unstructured) { label(o, service, "other"); label(o, uid, "another") },
		"other-owner": func(o *unstructured.Unstructured) {
			label(o, service, "other")
			o.SetOwnerReferences([]metav1.OwnerReference{owner})
		},
		"unmarked": func(o *unstructured.Unstructured) {
			label(o, service, "other")
			label(o, uid, "")
			o.SetOwnerReferences(nil)
		},
		"former": func(o *unstructured.Unstructured) { label(o, service, "former"); label(o, uid, "") },
	} {
		change(all[0], func(o *unstructured.Unstructured) { o.SetName(name); edit(o) })
	}
	there.Requests()
	out, stderr, code := w.run("", "-o", "json")
	var r struct{ Orphans []orphan }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	found := map[string]bool{}
	for _, o := range r.Orphans {
		found[o.Service] = o.Created != nil && o.Kind == "VirtualMachineService"
	}
	if len(r.Orphans) != 3 || !found["default/gone"] || !found["default/adopted"] || !found["default/former"] {
		t.Errorf("orphans: %s", out)
	}
	if writes := paravirtual.Writes(there.Requests()); len(writes) > 0 {
		t.Errorf("changed: %q", writes)
	}
	// The one that the existing manager has made carries the ID that the configuration says, which need not be the API server's.
	_, stderr, code = w.run("yes\nno\n", "--delete", "--not-restored")
	if n := strings.Count(stderr, "[y/N]"); n != 2 || code != 1 || !strings.Contains(stderr, "--same-cluster") {
		t.Errorf("%d questions, exit code %d: %s", n, code, stderr)
	}
	if _, stderr, code = w.run("", "--delete", "--not-restored", "--same-cluster", "--yes"); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if left := strings.Join(names(t, there), " "); strings.Count(left, " ") != 4 || strings.Contains(left, "former") {
		t.Errorf("left: %q", left)
	}
}

// TestSupervisorsClustersOfOneName: in another namespace of the Supervisor, and one of before in the same. Neither is touched, whatever the
// user vouches for.
func TestSupervisorsClustersOfOneName(t *testing.T) {
	other, elsewhere := supervisor(t, "orphans-other")
	other.made(other.cluster, "gone")
	w, there := supervisor(t, "orphans-own")
	w.made(w.cluster, "gone")
	before := w.cluster
	before.UID, before.ID = "ffffffff-0000-4000-8000-000000000002", "99999999-2222-4333-8444-555555555555"
	objects := there.Objects(paravirtual.VMServices)
	obj, err := objects.Get(t.Context(), names(t, there)[0], metav1.GetOptions{})
	w.must(err)
	owner := there.Owner
	owner.UID = types.UID(before.ID)
	obj.SetOwnerReferences([]metav1.OwnerReference{owner})
	labels := obj.GetLabels()
	labels["isthmus-cloud.github.io/cluster-uid"], labels["run.tanzu.vmware.com/service.name"] = before.UID, "former"
	obj.SetLabels(labels)
	obj.SetName("guest-former")
	obj.SetFinalizers(nil)
	obj.SetResourceVersion("")
	obj.SetUID("")
	_, err = objects.Create(t.Context(), obj, metav1.CreateOptions{})
	w.must(err)
	out, stderr, code := w.run("", "--delete", "--yes", "--not-restored", "--same-cluster")
	if left := names(t, there); code != 0 || strings.Join(left, " ") != "guest-former" || len(names(t, elsewhere)) != 1 || strings.Count(out, string(deleted)) != 1 {
		t.Errorf("exit code %d, left %q: %s%s", code, left, out, stderr)
	}
	w.flags[5] = "kubernetes" // the default of --cluster-name
	if out, stderr, code = w.run(""); code != 2 || out != "" || !strings.Contains(stderr, "--cluster-name") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

// TestSupervisorGoesOnWithADeletion: VM Operator takes its time, and the command is called again.
func TestSupervisorGoesOnWithADeletion(t *testing.T) {
	w, there := supervisor(t, "orphans-slow")
	w.made(w.cluster, "gone")
	there.Hold.Store(true)
	args := []string{"--delete", "--yes", "--not-restored", "--delete-timeout"}
	if out, _, code := w.run("", append(args, "100ms")...); code != 1 || !strings.Contains(out, string(failed)) || len(names(t, there)) != 1 {
		t.Errorf("exit code %d: %s", code, out)
	}
	there.Hold.Store(false)
	objects := there.Objects(paravirtual.VMServices)
	obj, err := objects.Get(t.Context(), names(t, there)[0], metav1.GetOptions{})
	w.must(err)
	obj.SetAnnotations(map[string]string{"wake": "up"}) // the simulated operator works when something changes
	_, err = objects.Update(t.Context(), obj, metav1.UpdateOptions{})
	w.must(err)
	if out, stderr, code := w.run("", append(args, "1m")...); code != 0 || len(names(t, there)) != 0 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	undo := there.Refuse(http.StatusServiceUnavailable)
	defer undo()
	if out, _, code := w.run(""); code != 2 || out != "" {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestVSphereMakesNothing: there are no orphans, which is no error.
func TestVSphereMakesNothing(t *testing.T) {
	w := &world{ControlPlane: shared.Plane(t), t: t}
	sim, err := vsphere.New(t.Context(), t.TempDir(), 1)
	w.must(err)
	t.Cleanup(sim.Close)
	w.reach("vsphere", sim.Config(), "kubernetes")
	if out, stderr, code := w.run(""); code != 0 || !strings.Contains(out, "no orphans") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if out, stderr, code := w.run("", "-o", "json", "--delete", "--yes"); code != 0 || !strings.Contains(out, `"orphans": []`) {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

// TestOnlyTheAPIServersWordCounts: neither an empty answer of something else, nor its 404, nor a list that may not be read, shows that
// a Service is gone.
func TestOnlyTheAPIServersWordCounts(t *testing.T) {
	w := newWorld(t)
	w.service("web")
	w.made(w.cluster, "web")
	w.made(w.cluster, "gone")
	target, err := url.Parse(w.Config.Host)
	w.must(err)
	tls, err := rest.TLSConfigFor(w.Config)
	w.must(err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{TLSClientConfig: tls}}
	answer := func(http.ResponseWriter, *http.Request) bool { return false }
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/services") || !answer(rw, r) {
			proxy.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	w.must(err)
	say := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
			return true
		}
	}
	for name, a := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"an empty object":  say(http.StatusOK, "{}"),
		"no list":          say(http.StatusOK, `{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]}`),
		"a cut list":       say(http.StatusOK, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`),
		"a page that ends": say(http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`),
		"not allowed":      say(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`),
		"404 of a proxy":   say(http.StatusNotFound, "page not found"),
		"a tenant's list":  say(http.StatusOK, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"namespace":"team","name":"own","uid":"1"}}]}`),
		"an empty list":    say(http.StatusOK, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`),
	} {
		answer = a
		if all, err := find(t.Context(), client, w.provider.Inventory, w.cluster); err == nil {
			t.Errorf("%s: %d orphans", name, len(all))
		}
	}
	first := say(http.StatusOK, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"more"},"items":[]}`)
	answer = func(rw http.ResponseWriter, r *http.Request) bool { // all Services are on the second page
		if r.URL.Query().Get("continue") == "" {
			return first(rw, r)
		}
		r.URL.RawQuery = ""
		return false
	}
	all, err := find(t.Context(), client, w.provider.Inventory, w.cluster)
	w.must(err)
	if len(all) != 1 || all[0].Service != "default/gone" {
		t.Fatalf("orphans: %+v", all)
	}
	for _, body := range []string{"page not found", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`} {
		answer = say(http.StatusNotFound, body)
		w.sim.ResetRequests()
		r := &remover{client: client, inventory: w.provider.Inventory, cluster: w.cluster, told: io.Discard, timeout: time.Minute}
		if stays := r.run(t.Context(), all); !stays || all[0].Outcome != failed || w.sim.Mutations() != 0 {
			t.Errorf("stays %t: %+v; %d changing calls", stays, all, w.sim.Mutations())
		}
		all[0].Kept, all[0].Outcome = "", ""
	}
}

// TestServiceMadeAgainKeepsItsLoadBalancer: whatever its type is, and its UID.
func TestServiceMadeAgainKeepsItsLoadBalancer(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "again")
	w.service("again")
	s, err := w.Client.CoreV1().Services("default").Get(t.Context(), "again", metav1.GetOptions{})
	w.must(err)
	s.Spec.Type = corev1.ServiceTypeClusterIP
	_, err = w.Client.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{})
	w.must(err)
	if out, stderr, code := w.run("", "--delete", "--yes", "--not-restored"); code != 0 || len(w.names()) != 1 || strings.Contains(out, "again") {
		t.Errorf("exit code %d, left %q: %s%s", code, w.names(), out, stderr)
	}
}

// reach has the command, and what makes load balancers for it, use a cloud.
func (w *world) reach(name, conf, clusterName string) {
	w.t.Helper()
	f := access.Flags{CloudProvider: name, CloudConfig: conf, RequestTimeout: time.Minute, ClusterName: clusterName, ChangeCloud: true}
	p, _, err := f.Cloud(w.t.Context(), w.Client)
	w.must(err)
	w.t.Cleanup(p.Close)
	w.provider = p
	w.cluster, err = f.Cluster(w.t.Context(), w.Client, p)
	w.must(err)
	eventually.True(w.t, "the API server has made its Service", func() bool {
		known, err := readServices(w.t.Context(), w.Client)
		return err == nil && known[ofAPIServer]
	})
	kubeconfig := filepath.Join(w.t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, w.Config))
	w.flags = []string{"--kubeconfig", kubeconfig, "--cloud-provider", name, "--cluster-name", clusterName, "--cloud-config", conf}
}
