package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferenceIsFresh fails when the document is not what the code says.
func TestReferenceIsFresh(t *testing.T) {
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("docs/reference/metrics.md is stale: run make generate:\n%s", diff)
	}
	for _, row := range []string{
		"| `isthmus_cloud_calls_total` | counter | `provider`, `ability`, `operation`, `kind` | STABLE | ",
		"| `service_controller_repairs_total` | counter |  | STABLE | ",
		"| `isthmus_webhook_certificate_expiration_timestamp_seconds` | gauge |  | STABLE | ",
		"| `isthmus_build_info` | gauge | `goversion`, `version` | STABLE | ",
		"| `workqueue_depth` | gauge | `name` | ",
		"| `node_controller_cloud_provider_taint_removal_delay_seconds` | histogram |  | ALPHA | ",
	} {
		if !strings.Contains(string(want), row) {
			t.Errorf("no row begins with %s", row)
		}
	}
}
