package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Answer serves one request without a network.
func Answer(t *testing.T, contentType string, body []byte, h admission.Handler) *admissionv1.AdmissionReview {
	t.Helper()
	never := func() time.Time { return time.Time{} }
	m, err := newMetrics(prometheus.NewRegistry(), never, never)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{}.withDefaults()
	hook := newHook("fuzz", h, &opts, m)
	req := httptest.NewRequest(http.MethodPost, "/fuzz?timeout=5s", bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	rec := httptest.NewRecorder()
	hook.ServeHTTP(rec, req)
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(rec.Body.Bytes(), review); err != nil || review.Response == nil {
		t.Fatalf("answer %q is no AdmissionReview with a response: %v", rec.Body, err)
	}
	return review
}
