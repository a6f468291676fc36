package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

// TestSymptoms: what the page on troubleshooting quotes of us is what the programs say.
func TestSymptoms(t *testing.T) {
	ours := sources(t)
	all := markdown.Pages(t, root)
	i := slices.IndexFunc(all, func(p markdown.Page) bool { return p.File == "docs/guides/troubleshooting.md" })
	quoted := 0
	for n, line := range all[i].Lines {
		cells := strings.Split(line, " | ")
		symptom, row := strings.CutPrefix(cells[0], "| ")
		if !row || strings.HasPrefix(symptom, "*") { // others say it
			continue
		}
		if len(cells) != 4 {
			t.Errorf("troubleshooting.md:%d: %d cells, want what is seen, the cause, where to look, and what to do", n+1, len(cells))
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(symptom, -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				if part = strings.TrimSpace(part); strings.Count(part, " ") < 2 {
					continue // a name, a field, or too little
				}
				quoted++
				if !strings.Contains(ours, part) {
					t.Errorf("troubleshooting.md:%d: no program of ours says %q", n+1, part)
				}
			}
		}
	}
	if quoted < 50 {
		t.Errorf("only %d texts are quoted: this test checks too little", quoted)
	}
}

// TestWarningsAreSymptoms: the page on troubleshooting names each event of type Warning.
func TestWarningsAreSymptoms(t *testing.T) {
	var events, symptoms string
	for _, p := range markdown.Pages(t, root) {
		switch p.File {
		case "docs/reference/events.md":
			events = strings.Join(p.Lines, "\n")
		case "docs/guides/troubleshooting.md":
			symptoms = strings.Join(p.Lines, "\n")
		}
	}
	warnings := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| Warning \\|").FindAllStringSubmatch(events, -1)
	for _, m := range warnings {
		if !strings.Contains(symptoms, "`"+m[1]+"`") {
			t.Errorf("docs/guides/troubleshooting.md does not say what to do about the event %s", m[1])
		}
	}
	if len(warnings) < 20 {
		t.Errorf("%d events: this test checks too little", len(warnings))
	}
}

// sources are all texts of the code that ships.
func sources(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, dir := range []string{"cmd", "credentialprovider", "pkg", "webhooks"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			out.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(out.String(), `\"`, `"`)
}
