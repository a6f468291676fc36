package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferencesAreFresh fails when a document is not what its program says.
func TestReferencesAreFresh(t *testing.T) {
	lookAtSources(t)
	for program, of := range map[string]struct {
		pkg      string
		commands []string
	}{
		"cloud-controller-manager":    {"../../cmd/cloud-controller-manager", nil},
		"isthmus":                     {"../../cmd/isthmus", nil},
		"isthmus-credential-provider": {"../../cmd/credential-provider", []string{"config", "check", "install"}},
	} {
		want, err := reference(t.Context(), of.pkg, program, of.commands)
		if err != nil {
			t.Fatal(err)
		}
		file := "docs/reference/flags-" + program + ".md"
		got, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: run make generate (-want +got):\n%s", file, diff)
		}
		if strings.Count(string(got), "--") < 10 {
			t.Errorf("%s has next to no flags: this test checks nothing", file)
		}
	}
}

// lookAtSources has `go test` run this test again when what the programs are made of has changed.
func lookAtSources(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"cmd", "credentialprovider", "pkg", "webhooks"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(file string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".go") {
				_, err = os.Stat(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDocument(t *testing.T) {
	help := `program does this.

Usage:
  program [flags]

First flags:

      --a-flag strings   Names: '*' means all | some,
                         and more. (default [*])
  -v, --verbose          Say more.

Second flags:

      --last duration   Time (or not). (default 1s)
`
	want := "\n## First\n\n| flag | default | |\n|---|---|---|\n" +
		"| `--a-flag` *strings* | `[*]` | Names: '\\*' means all \\| some, and more. |\n" +
		"| `-v`, `--verbose` |  | Say more. |\n" +
		"\n## Second\n\n| flag | default | |\n|---|---|---|\n" +
		"| `--last` *duration* | `1s` | Time (or not). |\n"
	if diff := cmp.Diff(want, document(help)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := below("Usage:\n  x\n\nAvailable Commands:\n  completion  Generate\n  do          Do it\n  help        Help\n  undo        Undo it\n\nFlags:\n  -h\n"); strings.Join(got, " ") != "do undo" {
		t.Errorf("commands %q", got)
	}
	if got := document("  --flag X   this\n"); got != "\n```text\n  --flag X   this\n```\n" {
		t.Errorf("%q", got)
	}
}
