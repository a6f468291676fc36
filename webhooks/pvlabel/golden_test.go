package pvlabel_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/golden"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// TestGolden sends each testdata/<case>.request.yaml, a whole AdmissionReview, as JSON to the
// webhook server, and compares the answer with testdata/<case>.response.json. Comments in
// the request say how often the cloud may be asked ("# cloud calls: n"), and the failure
// policy where it is not Fail.
//
// The former admission plugin PersistentVolumeLabel had 15 cases in its tests. These are
// what they show, by its semantics:
//
//	plugin-01-not-a-cloud-volume  a source that no cloud knows passes untouched
//	plugin-02-cloud-error         an error of the cloud refuses the creation
//	plugin-03-empty-answer        no labels from the cloud: nothing changes
//	plugin-04-dynamic             a provisioner's zone and region are trusted
//	plugin-05-dynamic-beta        so are the deprecated ones
//	plugin-06-user-labels         the cloud's word replaces the user's labels
//	plugin-07-ebs                 AWS
//	plugin-08-gce-pd              GCE
//	plugin-09-azure-disk          Azure
//	plugin-10-cinder              OpenStack
//	plugin-11-vsphere             vSphere
//	plugin-12-regional-disk       several zones: joined in the label, a list in the affinity
//	plugin-13-affinity-terms      requirements are added to every term that there is
//	plugin-14-affinity-conflict   a key that is there already: labels only
//	plugin-15-placeholder         a provisioner that has no volume yet: nothing changes
//
// The others are what it did not do: CSI volumes, and whatever a cloud or a user can do wrong.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.request.yaml")
	if plugin, _ := filepath.Glob("testdata/plugin-*.request.yaml"); err != nil || len(plugin) != 15 || len(cases) < 50 {
		t.Fatalf("%d cases, of which %d are the plugin's (error %v): this test would check nothing", len(cases), len(plugin), err)
	}
	s := serve(t)
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".request.yaml")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			request, err := yaml.YAMLToJSONStrict(source)
			if err != nil {
				t.Fatal(err)
			}
			cloud, policy := &volumes{}, admissionregistrationv1.Fail
			if bytes.Contains(source, []byte("# failure policy: Ignore\n")) {
				policy = admissionregistrationv1.Ignore
			}
			answer := s.post(t, pvlabel.New(cloud, policy), request)
			if want := fmt.Sprintf("# cloud calls: %d\n", len(cloud.asked)); !bytes.Contains(source, []byte(want)) {
				t.Errorf("the cloud was asked %d times, the case says something else", len(cloud.asked))
			}
			golden.Compare(t, "testdata/"+name+".response.json", answered(t, request, answer))
		})
	}
}

// webhookServer serves whatever handler is set.
type webhookServer struct {
	url     string
	client  *http.Client
	handler atomic.Pointer[pvlabel.Handler]
}

// serve starts the real webhook server on loopback.
func serve(t *testing.T) *webhookServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Certs: certstest.Source(t, t.TempDir()), Listener: listener, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	w := &webhookServer{url: "https://" + listener.Addr().String() + pvlabel.Path + "?timeout=10s"}
	s.Register(pvlabel.Name, pvlabel.Path, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		return w.handler.Load().Handle(ctx, req)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CABundle())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	w.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return w
}

// post sends a request, as the API server does, to h and returns the answer.
func (w *webhookServer) post(t *testing.T, h *pvlabel.Handler, request []byte) []byte {
	t.Helper()
	w.handler.Store(h)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, bytes.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, body %s, error %v", resp.StatusCode, body, err)
	}
	return body
}

func createRequest(name string, raw []byte) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID:       "uid-of-the-request",
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"},
		Name:      name,
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: raw},
	}}
}

// golden renders an answer for people: as it was sent, its patch decoded, and what becomes of
// the labels and the node affinity.
func answered(t *testing.T, request, answer []byte) []byte {
	t.Helper()
	var sent, got admissionv1.AdmissionReview
	if err := errors.Join(json.Unmarshal(request, &sent), json.Unmarshal(answer, &got)); err != nil {
		t.Fatal(err)
	}
	out := struct {
		Answer       json.RawMessage            `json:"answer"`
		Patch        json.RawMessage            `json:"patch,omitempty"`
		Labels       map[string]string          `json:"labels,omitempty"`
		NodeAffinity *corev1.VolumeNodeAffinity `json:"nodeAffinity,omitempty"`
	}{Answer: answer, Patch: got.Response.Patch}
	patched := applyPatch(t, sent.Request.Object.Raw, got.Response.Patch)
	out.Labels, out.NodeAffinity = patched.Labels, patched.Spec.NodeAffinity
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// applyPatch applies a patch as the API server does.
func applyPatch(t *testing.T, raw, patch []byte) *corev1.PersistentVolume {
	t.Helper()
	if len(patch) > 0 {
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatalf("patch %s: %v", patch, err)
		}
		if raw, err = p.Apply(raw); err != nil {
			t.Fatalf("apply %s: %v", patch, err)
		}
	}
	pv := &corev1.PersistentVolume{}
	if err := json.Unmarshal(raw, pv); err != nil {
		t.Fatal(err)
	}
	return pv
}
