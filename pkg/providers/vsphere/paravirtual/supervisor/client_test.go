package supervisor

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
)

var things = Resource{Group: "example.com", Version: "v1", Kind: "Thing", Plural: "things"}

// files are what a guest cluster has of its Supervisor.
func files(t *testing.T, ca []byte) *config.Supervisor {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "t", "namespace": "ns\n", "ca.crt": string(ca),
		"ownerref.json": `{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "guest", "uid": "u"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &config.Supervisor{Server: "https://192.0.2.1", CredentialsDirectory: dir, OwnerReferenceFile: filepath.Join(dir, "ownerref.json")}
}

func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// start makes a client of a Supervisor that answers as it is told.
func start(t *testing.T, o cloud.Options, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	cfg := files(t, authority(server))
	cfg.Server = server.URL
	c, err := New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func status(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message, Details: details}) //nolint:gosec // a status
	}
}

// Each answer has its kind, and is asked for once. Only the Supervisor's own word about the object is "not found".
func TestErrors(t *testing.T) {
	thing := &metav1.StatusDetails{Name: "a", Group: "example.com", Kind: "things"}
	plain := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "page", code) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		kind   cloud.Kind
	}{
		"not found":                 {status(404, metav1.StatusReasonNotFound, "x", thing), cloud.KindNotFound},
		"no namespace":              {status(404, metav1.StatusReasonNotFound, "x", &metav1.StatusDetails{Name: "ns", Kind: "namespaces"}), cloud.KindUnknown},
		"no such API":               {plain(404), cloud.KindUnknown},
		"another object":            {status(404, metav1.StatusReasonNotFound, "x", &metav1.StatusDetails{Name: "b", Group: "example.com", Kind: "things"}), cloud.KindUnknown},
		"another kind":              {status(404, metav1.StatusReasonNotFound, "x", &metav1.StatusDetails{Name: "a", Group: "example.com", Kind: "others"}), cloud.KindUnknown},
		"forbidden":                 {status(403, metav1.StatusReasonForbidden, "x", thing), cloud.KindDenied},
		"forbidden by a proxy":      {plain(403), cloud.KindDenied},
		"quota":                     {status(403, metav1.StatusReasonForbidden, "exceeded quota: things", thing), cloud.KindQuota},
		"refused by a webhook":      {status(403, metav1.StatusReasonForbidden, `admission webhook "x" denied the request`, nil), cloud.KindInvalid},
		"a webhook that is down":    {status(500, metav1.StatusReasonInternalError, `failed calling admission webhook "x"`, nil), cloud.KindUnavailable},
		"token that is not valid":   {status(401, metav1.StatusReasonUnauthorized, "x", nil), cloud.KindDenied},
		"there already, or changed": {status(409, metav1.StatusReasonConflict, "x", thing), cloud.KindStale},
		"not valid":                 {status(422, metav1.StatusReasonInvalid, "x", thing), cloud.KindInvalid},
		"not readable":              {status(400, metav1.StatusReasonBadRequest, "x", thing), cloud.KindInvalid},
		"too many":                  {status(429, metav1.StatusReasonTooManyRequests, "x", nil), cloud.KindThrottled},
		"too many, plain":           {plain(429), cloud.KindThrottled},
		"timeout":                   {status(504, metav1.StatusReasonTimeout, "x", nil), cloud.KindUnavailable},
		"away":                      {status(503, metav1.StatusReasonServiceUnavailable, "x", nil), cloud.KindUnavailable},
		"a method that is not":      {plain(405), cloud.KindUnknown},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("<html>"))
		}, cloud.KindUnknown},
	} {
		var calls atomic.Int32
		c := start(t, cloud.Options{}, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); tt.answer(w, r) })
		_, err := c.Get(t.Context(), things, "a")
		if cloud.KindOf(err) != tt.kind || !strings.Contains(err.Error(), "Thing ns/a") {
			t.Errorf("%s: %v (%v), want %v", name, err, cloud.KindOf(err), tt.kind)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%s: asked %d times", name, n)
		}
		if _, err := c.List(t.Context(), things, nil); cloud.IsNotFound(err) || err == nil {
			t.Errorf("%s: a list: %v", name, err)
		}
		if name == "too many" && cloud.RetryAfter(err) != 7*time.Second {
			t.Errorf("to wait %s", cloud.RetryAfter(err))
		}
	}
}

// A dry run sends nothing that changes something, and answers as if it had.
func TestDryRun(t *testing.T) {
	c := start(t, cloud.Options{DryRun: true}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	obj := func() *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "spec": map[string]any{"a": "b"}}}
		out.SetName("a")
		return out
	}
	if made, err := c.Create(t.Context(), things, obj()); err != nil || fmt.Sprint(made.Object["spec"]) != "map[a:b]" {
		t.Errorf("%v, %v", made, err)
	}
	if now, err := c.Update(t.Context(), things, obj()); err != nil || fmt.Sprint(now.Object["spec"]) != "map[a:b]" {
		t.Errorf("%v, %v", now, err)
	}
	if err := c.Delete(t.Context(), things, obj()); err != nil {
		t.Error(err)
	}
}

// The token is that of the file, and each file that is missing is named.
func TestFiles(t *testing.T) {
	var bearer atomic.Value
	c := start(t, cloud.Options{}, func(_ http.ResponseWriter, r *http.Request) { bearer.Store(r.Header.Get("Authorization")) })
	_, _ = c.Get(t.Context(), things, "a")
	if bearer.Load() != "Bearer t" {
		t.Errorf("%q", bearer.Load())
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := authority(server)
	for _, name := range []string{"token", "namespace", "ca.crt", "ownerref.json"} {
		cfg := files(t, ca)
		if err := os.Remove(filepath.Join(cfg.CredentialsDirectory, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), cfg, cloud.Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := New(t.Context(), files(t, nil), cloud.Options{}); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("an empty ca.crt: %v", err)
	}
	cfg := files(t, ca)
	if err := os.WriteFile(cfg.OwnerReferenceFile, []byte(`{"kind": "Cluster"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), cfg, cloud.Options{}); err == nil || !strings.Contains(err.Error(), "uid") {
		t.Errorf("an owner without a UID: %v", err)
	}
}

// Whose an object is says its owner, of whatever version its API is.
func TestClusterOf(t *testing.T) {
	c := start(t, cloud.Options{}, nil)
	of := func(apiVersion, kind, uid string) metav1.OwnerReference {
		out := c.Owner()
		out.APIVersion, out.Kind, out.UID = apiVersion, kind, "u"
		if uid != "u" {
			out.UID = "other"
		}
		return out
	}
	for want, owners := range map[string][]metav1.OwnerReference{
		"u":     {of("v1", "Node", "other"), of("cluster.x-k8s.io/v1beta1", "Cluster", "other"), of("cluster.x-k8s.io/v1beta2", "Cluster", "u")},
		"other": {of("v1", "Node", "u2"), of("cluster.x-k8s.io/v1beta2", "Cluster", "other")},
		"":      {of("v1", "Node", "u2")},
	} {
		if got := c.ClusterOf(owners); got != want {
			t.Errorf("%q, want %q: %+v", got, want, owners)
		}
	}
}
