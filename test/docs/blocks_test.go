// Package docs holds no code: its tests run or parse what the documentation shows, and follow its links.
package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

const root = "../.."

// languages are what blocks may be written in, and how each is checked.
var languages = map[string]func(t *testing.T, b markdown.Block) error{
	"sh":      shell,
	"go":      goCode,
	"json":    jsonText,
	"ini":     iniText,
	"yaml":    yamlText,
	"mermaid": sequence,
	"text":    plain,
}

// TestBlocks: every block of the documentation has a language and is what it says.
func TestBlocks(t *testing.T) {
	seen := map[string]int{}
	for _, p := range markdown.Pages(t, root) {
		for _, b := range p.Blocks {
			check, ok := languages[b.Language]
			if !ok {
				t.Errorf("%s: the language %q is not known; known are sh, go, json, ini, yaml, mermaid, and text for what a program prints (see reasons in test/docs)", b.Where, b.Language)
				continue
			}
			seen[b.Language]++
			if err := check(t, b); err != nil {
				t.Errorf("%s: %v\n%s", b.Where, err, b.Text)
			}
		}
	}
	for language, least := range map[string]int{"sh": 80, "go": 12, "json": 3, "ini": 5, "yaml": 35, "text": 15} {
		if seen[language] < least {
			t.Errorf("%d blocks of %s, want %d at least: this test checks too little", seen[language], language, least)
		}
	}
}

// reasons are why a block is text, by the word after the language.
var reasons = map[string]string{
	"":        "what a program prints, or a log or an event says: most of it is in the code",
	"flags":   "flags without a command line; each line is one",
	"drawing": "a picture",
}

func plain(_ *testing.T, b markdown.Block) error {
	if reasons[b.Info] == "" {
		return fmt.Errorf("a block of text is output, or says what else it is: `text flags` or `text drawing`, not %q", b.Info)
	}
	switch b.Info {
	case "":
		return said(b)
	case "drawing":
		return nil
	}
	for line := range strings.Lines(b.Text) {
		if !regexp.MustCompile(`^--[a-z0-9-]+(=\S+)?\s*(#.*)?$`).MatchString(strings.TrimSpace(line)) {
			return fmt.Errorf("no flag: %q", line)
		}
	}
	return nil
}

// shell: a POSIX shell and bash can read it. Our programs' tests take the command lines in it.
func shell(t *testing.T, b markdown.Block) error {
	for _, program := range []string{"sh", "bash"} {
		cmd := exec.CommandContext(t.Context(), program, "-n")
		cmd.Stdin = strings.NewReader(b.Text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			return fmt.Errorf("%s -n: %w: %s", program, errors.Join(err), out)
		}
	}
	return nil
}

func jsonText(_ *testing.T, b markdown.Block) error {
	dec := json.NewDecoder(strings.NewReader(b.Text))
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one value")
	}
	return nil
}

// goCode stands in the examples, which compile and are tested, or in the tests and examples of a package.
func goCode(t *testing.T, b markdown.Block) error {
	want := withoutBlankLines([]byte(b.Text))
	found := false
	for _, dir := range []string{"docs/examples", "webhooks"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || found || !strings.HasSuffix(file, ".go") {
				return err
			}
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			found = bytes.Contains(withoutBlankLines(data), want)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		return errors.New("this code stands in no file of docs/examples or webhooks, one line after the other")
	}
	return nil
}

func withoutBlankLines(text []byte) []byte {
	out := []byte{'\n'}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

// sequenceLines are what a sequence diagram may have here. It is a part of Mermaid's grammar.
var sequenceLines = []string{
	`participant \w+( as .+)?`, `\w+-{1,2}>>\w+: .+`, `Note (over|left of|right of) \w+(,\w+)?: .+`,
	`(loop|alt|opt|par|else|and) .+`, `end`,
}

// sequence: a sequence diagram whose participants are named, and whose boxes are closed.
func sequence(_ *testing.T, b markdown.Block) error {
	first, rest, _ := strings.Cut(b.Text, "\n")
	if first != "sequenceDiagram" {
		return fmt.Errorf("the diagram is %q, want sequenceDiagram, which this test can read", first)
	}
	line := regexp.MustCompile("^(" + strings.Join(sequenceLines, "|") + ")$")
	named, open := map[string]bool{}, 0
	for text := range strings.Lines(rest) {
		text = strings.TrimSpace(text)
		if !line.MatchString(text) || strings.Contains(text, ";") {
			return fmt.Errorf("no line of a sequence diagram: %q", text)
		}
		word, more, _ := strings.Cut(text, " ")
		switch word {
		case "participant":
			name, _, _ := strings.Cut(more, " ")
			named[name] = true
		case "loop", "alt", "opt", "par":
			open++
		case "end":
			open--
		}
		if m := regexp.MustCompile(`^(\w+)-{1,2}>>(\w+):`).FindStringSubmatch(text); m != nil && (!named[m[1]] || !named[m[2]]) {
			return fmt.Errorf("a participant is not named before %q", text)
		}
	}
	if open != 0 {
		return errors.New("loop, alt, opt or par without end")
	}
	return nil
}
