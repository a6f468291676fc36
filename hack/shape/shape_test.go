package main

import (
	"go/ast"
	"go/parser"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParametersAreThoseAfterTheContext(t *testing.T) {
	for text, want := range map[string]int{
		"func()": 0, "func(ctx context.Context)": 0, "func(ctx context.Context, a, b int, c string)": 3,
		"func(int, string)": 2, "func(a int, ctx context.Context)": 2, "func(a ...any)": 1,
	} {
		f, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := parameterCount(f.(*ast.FuncType)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestHelpersAndFilesThatAlwaysRunAreToldApart(t *testing.T) {
	c := &code{packages: map[string]*sources{
		module + "pkg/a":    {ImportPath: module + "pkg/a", Imports: []string{"fmt", module + "pkg/text"}},
		module + "pkg/text": {ImportPath: module + "pkg/text", Imports: []string{"strings"}},
	}, calls: map[[2]string]bool{{"pkg/a/a.go", "pkg/a/b.go"}: true, {"pkg/a/b.go", "pkg/a/c.go"}: true, {"pkg/a/c.go", "pkg/a/a.go"}: true, {"pkg/a/c.go", "pkg/a/d.go"}: true}}
	files := func(names ...string) map[string]bool {
		out := map[string]bool{}
		for _, n := range names {
			out[n] = true
		}
		return out
	}
	got := c.newEvent("e", files("pkg/a/b.go", "pkg/a/a.go", "pkg/a/c.go", "pkg/a/d.go", "pkg/a/lease.go", "pkg/text/text.go"), files("pkg/a/lease.go", "other.go"))
	want := event{Name: "e", Files: []string{"pkg/a/a.go", "pkg/a/b.go", "pkg/a/c.go", "pkg/a/d.go"}, Helpers: []string{"pkg/text/text.go"},
		Idle: []string{"pkg/a/lease.go"}, Circular: []string{"pkg/a/a.go", "pkg/a/b.go", "pkg/a/c.go"}, Leaves: []string{"pkg/a/d.go"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A type that is told by what others use is used, and so is what only tests of other packages name.
func TestUnusedNames(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module "+strings.TrimSuffix(module, "/")+"\ngo 1.26\n")
	write("pkg/a/a.go", "package a\n\nfunc New() *Told { return nil }\ntype Told struct{ Field Deep; hidden Alone }\ntype Deep int\ntype Alone int\nfunc ForTests() {}\nfunc Own() { Own2() }\nfunc Own2() {}\n")
	write("pkg/a/a_test.go", "package a_test\n\nimport \""+module+"pkg/a\"\n\nvar _ = a.Own\n")
	write("pkg/b/b.go", "package b\n\nimport \""+module+"pkg/a\"\n\nvar _ = a.New()\n")
	write("test/c/c_test.go", "package c\n\nimport \""+module+"pkg/a\"\n\nvar _ = a.ForTests\n")
	write("hack/d/d.go", "package d\n\nfunc Tool() {}\n")
	s, err := (&code{root: root}).measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pkg/a.Alone", "pkg/a.Own", "pkg/a.Own2"}, s.Unused); diff != "" || s.Exported != 7 || s.Unnamed != 5 {
		t.Errorf("%d names, %d not named by others; unused (-want +got):\n%s", s.Exported, s.Unnamed, diff)
	}
	sizes := map[string]int{}
	for _, p := range s.Packages {
		sizes[p.Package] = p.Lines
	}
	if got := slices.Sorted(maps.Keys(sizes)); !slices.Equal(got, []string{"pkg/a", "pkg/b"}) || sizes["pkg/a"] != 9 {
		t.Errorf("sizes %v", sizes)
	}
}
