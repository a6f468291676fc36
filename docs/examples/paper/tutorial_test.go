package paper

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tutorial = "../../add-a-cloud.md"

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// code are the lines that are not blank.
func code(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// The tutorial shows the whole of paper.go, piece by piece, and of its tests what is there.
func TestTutorialShowsTheCode(t *testing.T) {
	tests := text(t, "paper_test.go")
	var shown []string
	for _, m := range regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n").FindAllStringSubmatch(text(t, tutorial), -1) {
		if !strings.Contains(tests, m[1]) {
			shown = append(shown, code(m[1])...)
		}
	}
	if diff := cmp.Diff(code(text(t, "paper.go")), shown); diff != "" {
		t.Errorf("the Go code of the tutorial is not paper.go (-paper.go +tutorial):\n%s", diff)
	}
}

// As many lines of code as the tutorial says: those that are neither blank nor a comment.
func TestPaperIsSmall(t *testing.T) {
	lines := 0
	for _, line := range code(text(t, "paper.go")) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			lines++
		}
	}
	if lines > 300 {
		t.Errorf("paper.go has %d lines of code, and is to have 300 at most", lines)
	}
}

// Each of the ten changes has one file, which has what the table names.
func TestEachChangeHasItsFile(t *testing.T) {
	_, section, _ := strings.Cut(text(t, tutorial), "\n## Ten changes, and the one file where each goes\n")
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`|]+)` \\| `([^`|]+)`(?:, `([^`|]+)`)? \\|").FindAllStringSubmatch(section, -1)
	if len(rows) != 10 {
		t.Fatalf("the table has %d rows with a file and a name, want 10", len(rows))
	}
	for _, row := range rows {
		data, err := os.ReadFile(filepath.Join("../../..", row[2]))
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
			continue
		}
		for _, name := range row[3:] {
			declared := regexp.MustCompile(`(?m)^(func|type|var|const) (\([^)]*\) )?` + regexp.QuoteMeta(name) + `\b`)
			if name != "" && !declared.Match(data) {
				t.Errorf("%s: %s declares no %s", row[1], row[2], name)
			}
		}
	}
}
