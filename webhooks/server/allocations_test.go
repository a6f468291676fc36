package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// hotPath returns a function that serves one request of the size that API servers send, as
// far as the server does it itself: all but HTTP, TLS and the webhook's own decision.
func hotPath(tb testing.TB) func() {
	tb.Helper()
	o := server.NewOptions()
	o.Certs, o.Metrics = certstest.Source(tb, tb.TempDir()), prometheus.NewRegistry()
	s, err := server.New(*o)
	if err != nil {
		tb.Fatal(err)
	}
	s.Register("test", path, admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Response{AdmissionResponse: admission.Allowed("").AdmissionResponse}
	}))
	body := reviewAsSent(tb)
	ctx := context.Background()
	return func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://webhook"+path+"?timeout=10s", bytes.NewReader(body))
		if err != nil {
			tb.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, req)
		if rec.Code != http.StatusOK || !bytes.Contains(rec.Body.Bytes(), []byte(`"allowed":true`)) {
			tb.Fatalf("answer %d %s", rec.Code, rec.Body)
		}
	}
}

// reviewAsSent is an AdmissionReview of a PersistentVolume that kubectl creates.
func reviewAsSent(tb testing.TB) []byte {
	tb.Helper()
	encode := func(o any) []byte {
		data, err := json.Marshal(o)
		if err != nil {
			tb.Fatal(err)
		}
		return data
	}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	kind, dryRun := metav1.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}, false
	object := corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "data-of-db-0", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 500)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:accessModes":{},"f:capacity":{".":{},"f:storage":{}},"f:csi":{".":{},"f:driver":{},"f:volumeHandle":{}},"f:persistentVolumeReclaimPolicy":{},"f:volumeMode":{}}}`)}},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "cinder.csi.openstack.org", VolumeHandle: "6747b695-07a6-4f38-be30-1d8aaa297688"}},
		},
	}
	return encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "0df28fbd-5f5f-11e8-bc74-36e6bb280816", Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource,
			Name: object.Name, Operation: admissionv1.Create, DryRun: &dryRun,
			UserInfo: authenticationv1.UserInfo{Username: "jane", UID: "1", Groups: []string{"dev", "system:authenticated"}},
			Object:   runtime.RawExtension{Raw: encode(object)},
			Options:  runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl"}`)},
		},
	})
}

// What the server adds to each request is bounded: the API server waits for it. Of the
// allocations, about 15 are the test's, and 12 the three claims'. The race detector adds some, as its pools forget.
func TestAllocationsOfARequest(t *testing.T) {
	const most = 120
	if got := testing.AllocsPerRun(200, hotPath(t)); got > most {
		t.Errorf("%.0f allocations for a request, want at most %d", got, most)
	}
}

func BenchmarkRequest(b *testing.B) {
	serve := hotPath(b)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}
