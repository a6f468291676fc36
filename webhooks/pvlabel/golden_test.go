package pvlabel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden answers an AdmissionReview for each testdata/<case>.yaml, a PersistentVolume,
// and compares the answer and the patched object with testdata/<case>.golden.json. A
// comment "# cloud calls: n" in the case says how often the cloud may be asked.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(cases) < 30 {
		t.Fatalf("only %d cases found (error %v): this test would check nothing", len(cases), err)
	}
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := yaml.YAMLToJSONStrict(source)
			if err != nil {
				t.Fatal(err)
			}
			cloud := &volumes{}
			req := createRequest(name, raw)
			resp := pvlabel.New(cloud).Handle(context.Background(), req)
			if err := resp.Complete(req); err != nil {
				t.Fatal(err)
			}
			if wantCalls := bytes.Contains(source, []byte("# cloud calls: 1")); wantCalls != (len(cloud.asked) == 1) {
				t.Errorf("the cloud was asked %d times, the case says %v", len(cloud.asked), wantCalls)
			}
			compareGolden(t, strings.TrimSuffix(file, ".yaml")+".golden.json", golden(t, raw, resp))
		})
	}
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

// golden renders an answer for people: the review, its patch as JSON, and what becomes of
// the labels and the node affinity.
func golden(t *testing.T, raw []byte, resp admission.Response) []byte {
	t.Helper()
	out := struct {
		Review       admissionv1.AdmissionReview `json:"review"`
		Patch        json.RawMessage             `json:"patch,omitempty"`
		Labels       map[string]string           `json:"labels,omitempty"`
		NodeAffinity *corev1.VolumeNodeAffinity  `json:"nodeAffinity,omitempty"`
	}{
		Review: admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Response: &resp.AdmissionResponse,
		},
	}
	patched := applyPatch(t, raw, resp.Patch)
	out.Labels, out.NodeAffinity = patched.Labels, patched.Spec.NodeAffinity
	out.Patch, resp.Patch = resp.Patch, nil
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

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update and read what it says", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}
