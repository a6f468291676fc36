package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/providers"
)

func TestReferencesAreFresh(t *testing.T) {
	for cloud := range providers.All() {
		want, err := reference(cloud)
		if err != nil {
			t.Fatal(err)
		}
		file := "docs/reference/cloud-conf-" + cloud + ".md"
		got, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale; run make generate (-want +got):\n%s", file, diff)
		}
	}
}
