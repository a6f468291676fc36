package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferenceIsFresh(t *testing.T) {
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/cloud-conf-openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference/cloud-conf-openstack.md is stale; run make generate (-want +got):\n%s", diff)
	}
}
