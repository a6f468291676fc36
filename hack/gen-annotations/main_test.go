package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers"
)

// TestReferencesAreFresh fails when a document is not what the table says.
func TestReferencesAreFresh(t *testing.T) {
	for name := range providers.All() {
		if strings.HasPrefix(name, "vsphere") { // its load balancers have no annotations, if it has any
			continue
		}
		want, err := reference(name)
		if err != nil {
			t.Fatal(err)
		}
		file := "docs/reference/service-annotations-" + name + ".md"
		got, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: run make generate (-want +got):\n%s", file, diff)
		}
	}
}

func TestReferenceNeedsDescriptions(t *testing.T) {
	if err := write(&bytes.Buffer{}, []cloud.Annotation{{Name: "x"}}); err == nil {
		t.Error("an annotation without a description is documented")
	}
}
