package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/golden"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// TestGolden answers an AdmissionReview for each testdata/<case>.yaml and compares the answer
// with testdata/<case>.golden.json. One Service is created; of two, the first is changed into the
// second. A comment "# cloud.conf: name" says which configuration holds.
func TestGolden(t *testing.T) {
	environments := goldenEnvironments(t)
	cases, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(cases) < 40 {
		t.Fatalf("only %d cases found (error %v): this test would check nothing", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c := readCase(t, file)
			req := rawRequest(c.service, c.old)
			resp := service.New(environments[c.conf]).Handle(context.Background(), req)
			if err := resp.Complete(req); err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(admissionv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: &resp.AdmissionResponse,
			}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden.json", append(got, '\n'))
		})
	}
}

func goldenEnvironments(t testing.TB) map[string]webhooks.Environment {
	return map[string]webhooks.Environment{
		"": environment(t, ""), "ovn": environment(t, ovn), "external": environment(t, "[LoadBalancer]\ncontainer-store = external\n"),
	}
}

// goldenCase is what stands in testdata/<case>.yaml, as JSON.
type goldenCase struct {
	conf         string
	old, service []byte
}

func readCase(t testing.TB, file string) goldenCase {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c goldenCase
	first, _, _ := strings.Cut(string(source), "\n")
	c.conf, _ = strings.CutPrefix(first, "# cloud.conf: ")
	if c.conf == first {
		c.conf = ""
	}
	documents := bytes.Split(source, []byte("---\n"))
	for i, d := range documents {
		raw, err := yaml.YAMLToJSONStrict(d)
		if err != nil {
			t.Fatal(err)
		}
		if i < len(documents)-1 {
			c.old = raw
		} else {
			c.service = raw
		}
	}
	return c
}
