package main

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferenceIsFresh fails when the document is not what the code says.
func TestReferenceIsFresh(t *testing.T) {
	want, err := reference("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("docs/reference/events.md is stale: run make generate:\n%s", diff)
	}
	for _, row := range []string{"| `EnsuredLoadBalancer` | Normal | Service | ", "| `NodeDeletionHeld` | Warning | Node and Namespace kube-system | "} {
		if !strings.Contains(string(want), row) {
			t.Errorf("no row begins with %s", row)
		}
	}
}

func TestReasonsAreToldOf(t *testing.T) {
	for name, c := range map[string]struct{ code, problem string }{
		"no comment":            {`const reasonX = "X"`, "the comment of reasonX"},
		"a warning, no advice":  {"const (\n// Warning on Node: it is bad.\neventX = \"X\"\n)", "the comment of eventX"},
		"no constant":           {`func f() { r.Event(o, kind, "X", "text") }`, `the reason "X" is no constant`},
		"all is well":           {"const (\n// Warning on Node and Namespace kube-system: it is bad.\n// Next: mend it.\neventX = \"X\"\n)", ""},
		"something else's name": {`const eventually = "x"; const reasonable = "y"`, ""},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+c.code, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := eventsOf(f)
		if got := strings.Join(problems, "\n"); c.problem == "" && got != "" || !strings.Contains(got, c.problem) {
			t.Errorf("%s: %q, want %q", name, got, c.problem)
		}
	}
}
