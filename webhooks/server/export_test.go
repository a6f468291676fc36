package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	c := newCommon(Options{}.withDefaults())
	c.metrics = m
	hook := newHook("fuzz", h, &c)
	req := httptest.NewRequest(http.MethodPost, "/fuzz?timeout=5s", bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	rec := httptest.NewRecorder()
	hook.ServeHTTP(rec, req)
	review, err := Answered(rec.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return review
}

// Answered decodes an answer: an AdmissionReview with the uid asked for or, where that is not
// known, a Status, which becomes the result of one without kind.
func Answered(data []byte) (*admissionv1.AdmissionReview, error) {
	review, status := &admissionv1.AdmissionReview{}, &metav1.Status{}
	if err := json.Unmarshal(data, review); err != nil {
		return nil, fmt.Errorf("answer %q: %w", data, err)
	}
	switch {
	case review.Kind == "Status":
		if err := json.Unmarshal(data, status); err != nil || status.Message == "" || status.Code < 400 || status.Status != metav1.StatusFailure {
			return nil, fmt.Errorf("answer %q is no Status that says what failed: %w", data, err)
		}
		return &admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{Result: status}}, nil
	case review.Response == nil || review.Response.UID == "":
		return nil, fmt.Errorf("answer %q has no response with a uid", data)
	}
	return review, nil
}
