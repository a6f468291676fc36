package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
)

// TestReferenceIsFresh fails when the document is not what the table says.
func TestReferenceIsFresh(t *testing.T) {
	want, err := reference(openstack.Annotations())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/service-annotations-openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the document is stale: run make generate (-want +got):\n%s", diff)
	}
}

func TestReferenceNeedsDescriptions(t *testing.T) {
	if _, err := reference([]cloud.Annotation{{Name: "x"}}); err == nil {
		t.Error("an annotation without a description is documented")
	}
}
