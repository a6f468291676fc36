package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// TestBadRequests: whatever comes, a message and a code go back in a form that the API server
// shows: an AdmissionReview with the uid, also where nothing but that can be read, or else a Status.
func TestBadRequests(t *testing.T) {
	r := start(t, func(_ context.Context, req admission.Request) admission.Response {
		t.Errorf("the webhook was asked about request %q", req.UID)
		return admission.Allowed("")
	}, func(o *server.Options) { o.MaxBodyBytes = 4096 })
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	tests := map[string]struct {
		method, contentType, body string
		header                    http.Header
		uid, version              string
		code                      int32
		message                   string
	}{
		"GET":                   {method: http.MethodGet, code: 405, message: "POST an AdmissionReview"},
		"no body":               {code: 400, message: "the body is empty"},
		"malformed JSON":        {body: head + `,`, code: 400, message: "not an AdmissionReview"},
		"not an object":         {body: `[1,2]`, code: 400, message: "not an AdmissionReview"},
		"wrong types":           {body: head + `,"request":{"uid":7}}`, code: 400, message: "not an AdmissionReview"},
		"content type":          {contentType: "application/yaml", body: goodReview, uid: "u1", code: 400, message: `content type "application/yaml" is not served`},
		"compressed":            {header: http.Header{"Content-Encoding": {"gzip"}}, body: goodReview, uid: "u1", code: 400, message: `content encoding "gzip" is not served`},
		"charset":               {contentType: "application/json; charset=utf-8", body: head + `}`, code: 400, message: "has no request"},
		"odd type":              {contentType: "application/json;;;=", body: goodReview, uid: "u1", code: 400, message: "is not served"},
		"no content type":       {contentType: "-", body: goodReview, uid: "u1", code: 400, message: `content type "" is not served`},
		"oversized":             {body: head + `,"x":"` + strings.Repeat("x", 5000) + `"}`, code: 413, message: "larger than the limit of 4096 bytes"},
		"oversized review":      {body: head + `,"request":{"uid":"u5","x":"` + strings.Repeat("x", 5000) + `"}}`, uid: "u5", code: 413, message: "larger than the limit of 4096 bytes"},
		"broken review":         {body: head + `,"request":{"uid":"u6","object":}}`, uid: "u6", code: 400, message: "not an AdmissionReview"},
		"review of wrong types": {body: head + `,"request":{"uid":"u7","name":[]}}`, uid: "u7", code: 400, message: "not an AdmissionReview"},
		"not UTF-8":             {body: head + `,"request":{"uid":"u8","name":"` + "\xff" + `"}}`, uid: "u8", code: 400, message: "not UTF-8"},
		"too deep":              {body: head + `,"request":{"uid":"u9","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, uid: "u9", code: 413, message: "more than 64 levels"},
		"long name":             {body: head + `,"request":{"uid":"u10","` + strings.Repeat("x", 1025) + `" :1}}`, uid: "u10", code: 413, message: "a name of 1025 bytes"},
		"long number":           {body: head + `,"request":{"uid":"u11","x":` + strings.Repeat("1", 40) + `e-` + strings.Repeat("1", 40) + `}}`, uid: "u11", code: 413, message: "a number of more than 64 digits"},
		"no request":            {body: head + `}`, code: 400, message: "has no request"},
		"null request":          {body: head + `,"request":null}`, code: 400, message: "has no request"},
		"no uid":                {body: head + `,"request":{}}`, code: 400, message: "has no uid"},
		"wrong kind":            {body: `{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u2"}}`, uid: "u2", code: 400, message: `kind "Pod" instead of admission.k8s.io/v1, AdmissionReview`},
		"no kind":               {body: `{}`, code: 400, message: `kind ""`},
		"wrong version":         {body: `{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{"uid":"u3"}}`, uid: "u3", code: 400, message: `apiVersion "admission.k8s.io/v2"`},
		"v1beta1": {
			body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u4"}}`, uid: "u4",
			version: "admission.k8s.io/v1beta1", code: 400, message: "set admissionReviewVersions: [v1]",
		},
	}
	c := r.client(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, bytes.NewReader([]byte(tt.body)))
			if err != nil {
				t.Fatal(err)
			}
			for name, values := range tt.header {
				req.Header[name] = values
			}
			switch tt.contentType {
			case "":
				req.Header.Set("Content-Type", "application/json")
			case "-":
			default:
				req.Header.Set("Content-Type", tt.contentType)
			}
			review, status := do(t, c, req)
			resp := review.Response
			version, kind, wantStatus := tt.version, "AdmissionReview", http.StatusOK
			if version == "" {
				version = "admission.k8s.io/v1"
			}
			if tt.uid == "" {
				version, kind, wantStatus = "", "", int(tt.code)
			}
			if status != wantStatus || review.APIVersion != version || review.Kind != kind {
				t.Errorf("HTTP %d, %q %q; want %d, %q %q", status, review.APIVersion, review.Kind, wantStatus, version, kind)
			}
			if resp.Allowed || string(resp.UID) != tt.uid || resp.Result.Code != tt.code || resp.Result.Reason == "" {
				t.Errorf("allowed %v, uid %q, code %d, reason %q; want a refusal with uid %q, code %d", resp.Allowed, resp.UID, resp.Result.Code, resp.Result.Reason, tt.uid, tt.code)
			}
			if !strings.Contains(resp.Result.Message, tt.message) || strings.Contains(resp.Result.Message, "\n") {
				t.Errorf("message %q does not say %q in one line", resp.Result.Message, tt.message)
			}
		})
	}
}

// TestDefectBodyUnbounded: a body that does not tell its length is not read on and on.
func TestDefectBodyUnbounded(t *testing.T) {
	r := start(t, allow, func(o *server.Options) { o.MaxBodyBytes = 4096 })
	body := struct{ *bytes.Reader }{bytes.NewReader(bytes.Repeat([]byte("x"), 100_000))}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if req.ContentLength > 0 {
		t.Fatal("the request tells its length: this test would check nothing")
	}
	review, _ := do(t, r.client(t), req)
	if review.Response.Result.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("code %d, want %d", review.Response.Result.Code, http.StatusRequestEntityTooLarge)
	}
}

func TestUnknownPath(t *testing.T) {
	r := start(t, allow)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mutate", strings.NewReader(goodReview))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusNotFound || status.Kind != "Status" || !strings.Contains(status.Message, "served are "+path) {
		t.Errorf("HTTP %d with %+v; want 404 and what is served", resp.StatusCode, status)
	}
}

// FuzzAdmissionReview: no body brings the server down or gets an answer without a message.
func FuzzAdmissionReview(f *testing.F) {
	f.Add([]byte(goodReview))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"kind":"PersistentVolume"},"oldObject":null}}`))
	f.Add([]byte(`{"request":`))
	f.Add([]byte{0xff, 0xfe})
	f.Fuzz(func(t *testing.T, body []byte) {
		asked := false
		review := server.Answer(t, "application/json", body, admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			asked = true
			return admission.Allowed("")
		}))
		resp := review.Response
		if resp.Allowed != asked {
			t.Errorf("allowed %v, but the webhook was asked: %v", resp.Allowed, asked)
		}
		if !resp.Allowed && (resp.Result.Message == "" || resp.Result.Code < 400) {
			t.Errorf("refused with code %d and message %q", resp.Result.Code, resp.Result.Message)
		}
		if asked && resp.UID == "" {
			t.Error("answered a request without its uid")
		}
	})
}
