package pvlabel_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// FuzzPersistentVolume: no object makes the webhook panic; what it changes is the same each
// time, can be applied, and leaves nothing to change.
func FuzzPersistentVolume(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.request.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range seeds {
		source, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var review admissionv1.AdmissionReview
		if err := yaml.Unmarshal(source, &review); err != nil {
			f.Fatal(err)
		}
		f.Add(review.Request.Object.Raw, true)
		f.Add(review.Request.Object.Raw, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, ignore bool) {
		policy := admissionregistrationv1.Fail
		if ignore {
			policy = admissionregistrationv1.Ignore
		}
		handler := pvlabel.New(&volumes{}, policy)
		req := createRequest("pv", raw)
		resp := handler.Handle(context.Background(), req)
		if again := handler.Handle(context.Background(), req); !reflect.DeepEqual(resp, again) {
			t.Fatalf("two answers to one request: %v and %v", resp, again)
		}
		if err := resp.Complete(req); err != nil {
			t.Fatal(err)
		}
		if !resp.Allowed && resp.Result.Message == "" {
			t.Fatal("refused without a message")
		}
		if !resp.Allowed || len(resp.Patch) == 0 {
			return
		}
		// The API server sends an object once decoded: no key twice, no metadata missing.
		pv := &corev1.PersistentVolume{}
		if err := utiljson.Unmarshal(raw, pv); err != nil {
			t.Fatal(err)
		}
		canonical, err := json.Marshal(pv)
		if err != nil {
			return // not an object that the API server could send
		}
		patched := applyPatch(t, canonical, resp.Patch)
		out, err := json.Marshal(patched)
		if err != nil {
			t.Fatal(err)
		}
		if next := handler.Handle(context.Background(), createRequest("pv", out)); !next.Allowed || len(next.Patches) > 0 {
			t.Fatalf("the patched object %s is changed again: %v", out, next)
		}
	})
}
