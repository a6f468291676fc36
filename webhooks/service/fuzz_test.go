package service_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// FuzzService: no object makes the webhook panic; its answer to a creation is the same each time
// and rejects just what the planner or the provider do; and no object is kept from staying as it is.
func FuzzService(f *testing.F) {
	environments := goldenEnvironments(f)
	seeds, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range seeds {
		c := readCase(f, file)
		f.Add(c.service, prefix+"lb-method", "SOURCE_IP", c.conf == "ovn")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name, value string, onOVN bool) {
		env := environments[""]
		if onOVN {
			env = environments["ovn"]
		}
		judge(t, env, raw, name, value)
	})
}

// judge has the webhook judge the Service raw with one annotation more.
func judge(t *testing.T, env webhooks.Environment, raw []byte, name, value string) {
	t.Helper()
	handler := service.New(env)
	s := &corev1.Service{}
	if err := utiljson.Unmarshal(raw, s); err != nil {
		if resp := handler.Handle(context.Background(), rawRequest(raw, nil)); resp.Allowed || resp.Result.Code != http.StatusBadRequest {
			t.Fatalf("answer to what is no Service (%v): %v", err, resp)
		}
		return
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[name] = value
	canonical, err := json.Marshal(s)
	if err != nil || utiljson.Unmarshal(canonical, &corev1.Service{}) != nil {
		return // nothing that the API server could send
	}
	resp := handler.Handle(context.Background(), rawRequest(canonical, nil))
	if again := handler.Handle(context.Background(), rawRequest(canonical, nil)); !reflect.DeepEqual(resp, again) {
		t.Fatalf("two answers to one request: %v and %v", resp, again)
	}
	if !resp.Allowed && (resp.Result.Code != http.StatusUnprocessableEntity || len(causes(resp)) == 0) {
		t.Fatalf("rejected as %v", resp.Result)
	}
	if class, ours := env.Classes.Of(s); ours && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil {
		if planned, _ := plan(env, decoded(t, canonical)); resp.Allowed != (len(planned) == 0) {
			t.Errorf("class %q: allowed %v, the planner and the provider refuse %q", class, resp.Allowed, planned)
		}
	} else if !resp.Allowed {
		t.Errorf("rejected, though it is not ours: %v", resp.Result)
	}
	wantEditable(t, handler, canonical)
}

// wantEditable: a Service that stays as it is passes without a word, and one of which nothing
// but something harmless changes passes.
func wantEditable(t *testing.T, handler *service.Handler, raw []byte) {
	t.Helper()
	if resp := handler.Handle(context.Background(), rawRequest(raw, raw)); !resp.Allowed || len(resp.Warnings) > 0 {
		t.Errorf("no change: allowed %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	changed := decoded(t, raw)
	changed.Spec.PublishNotReadyAddresses = !changed.Spec.PublishNotReadyAddresses
	data, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	if resp := handler.Handle(context.Background(), rawRequest(data, raw)); !resp.Allowed {
		t.Errorf("a change of something else is rejected: %v\n%s", resp.Result, cmp.Diff(raw, data))
	}
}

func decoded(t *testing.T, raw []byte) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	if err := utiljson.Unmarshal(raw, s); err != nil {
		t.Fatal(err)
	}
	return s
}
