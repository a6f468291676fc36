package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/pkg/cli"
)

// languages are what blocks may be written in, and how each is checked.
var languages = map[string]func(t *testing.T, b block) error{
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
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			check, ok := languages[b.language]
			if !ok {
				t.Errorf("%s: the language %q is not known; known are sh, go, json, ini, yaml, mermaid, and text for what a program prints (see reasons in test/docs)", b.where, b.language)
				continue
			}
			seen[b.language]++
			if err := check(t, b); err != nil {
				t.Errorf("%s: %v\n%s", b.where, err, b.text)
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

func plain(_ *testing.T, b block) error {
	if reasons[b.info] == "" {
		return fmt.Errorf("a block of text is output, or says what else it is: `text flags` or `text drawing`, not %q", b.info)
	}
	switch b.info {
	case "":
		return said(b)
	case "drawing":
		return nil
	}
	for line := range strings.Lines(b.text) {
		if !regexp.MustCompile(`^--[a-z0-9-]+(=\S+)?\s*(#.*)?$`).MatchString(strings.TrimSpace(line)) {
			return fmt.Errorf("no flag: %q", line)
		}
	}
	return nil
}

// ours are programs of ours by what begins their command lines, with the file that has their flags; isthmus' own commands read its lines.
var ours = map[string]string{
	"cloud-controller-manager":    "flags-cloud-controller-manager.md",
	"isthmus-credential-provider": "flags-isthmus-credential-provider.md",
}

// between is what stands between two commands of a line, and before is what may stand before a command's name.
var between, before = regexp.MustCompile(`\|\|?|&&|;|\$\(`), regexp.MustCompile(`^(sudo|[A-Z_]+=\S*)$`)

// accepted: command lines of programs of ours are such as they take.
func accepted(script string) error {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		for _, command := range between.Split(line, -1) {
			words := strings.Fields(command)
			for len(words) > 0 && before.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 1 && words[0] == "kubectl" && words[1] == "isthmus" {
				words = words[1:]
			}
			if len(words) == 0 {
				continue
			}
			err := error(nil)
			if path.Base(words[0]) == "isthmus" {
				err = isthmusTakes(words[1:])
			} else if file := ours[path.Base(words[0])]; file != "" {
				err = flagsExist(file, words[1:])
			}
			if err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(command), err)
			}
		}
	}
	return nil
}

// isthmusTakes: the command line isthmus knows the command, its flags with their values, and how many arguments it has.
func isthmusTakes(args []string) error {
	for i, arg := range args {
		if strings.HasPrefix(arg, ">") || arg == "&&" || arg == "&" || strings.HasPrefix(arg, "2>") {
			args = args[:i]
			break
		}
		args[i] = strings.Trim(arg, `'"`)
	}
	cmd, rest, err := cli.Command("isthmus").Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// flagsExist: the flags are in a reference.
func flagsExist(file string, args []string) error {
	reference, err := os.ReadFile(filepath.Join(root, "docs", "reference", file))
	if err != nil {
		return err
	}
	for _, word := range args {
		name, _, _ := strings.Cut(strings.Trim(word, "'"), "=")
		if strings.HasPrefix(name, "--") && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b[^-]`).Match(reference) {
			return fmt.Errorf("there is no flag %s, by %s", name, file)
		}
	}
	return nil
}

// shell: a POSIX shell and bash can read it, and our programs take their command lines.
func shell(t *testing.T, b block) error {
	for _, program := range []string{"sh", "bash"} {
		cmd := exec.CommandContext(t.Context(), program, "-n")
		cmd.Stdin = strings.NewReader(b.text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			return fmt.Errorf("%s -n: %w: %s", program, errors.Join(err), out)
		}
	}
	return accepted(b.text)
}

func jsonText(_ *testing.T, b block) error {
	dec := json.NewDecoder(strings.NewReader(b.text))
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
func goCode(t *testing.T, b block) error {
	want := withoutBlankLines([]byte(b.text))
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
func sequence(_ *testing.T, b block) error {
	first, rest, _ := strings.Cut(b.text, "\n")
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
