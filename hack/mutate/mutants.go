package main

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed mutants/*.txt
var mutantFiles embed.FS

// mutant is one defect. In the list it is
//
//	# webhooks/server/hook.go: the slot is never released
//	- 		defer func() { <-h.slots }()
//	+ 		_ = h.slots
//	= it is the same because …
//	! it lives, as …
//
// where the lines with - must stand in the file exactly once, as whole lines, and those with + take
// their place; there may be none of them. A line with = says why no test can notice, and one with ! why
// none does; there is mostly neither. Lines with // are comments.
type mutant struct {
	file, title   string
	before, after []string
	same          string // why no test can notice: it counts neither way
	lives         string // why none does: it counts as one that survives
	list          string // its name
	at            string // file and line in the list
}

func (m *mutant) String() string { return m.file + ": " + m.title }

// dir is the folder of m's package, as the go command knows it.
func (m *mutant) dir() string { return "./" + path.Dir(m.file) }

// readAll returns the mutants of the lists in files, all of which apply to the code in root.
func readAll(files fs.FS, root string) ([]*mutant, error) {
	names, err := fs.Glob(files, "mutants/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*mutant
	var errs []error
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		some, err := parse(name, bufio.NewScanner(f))
		errs = append(errs, err, f.Close())
		all = append(all, some...)
	}
	for _, m := range all {
		_, err := m.apply(root)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// parse reads a list; name is for errors.
func parse(name string, lines *bufio.Scanner) ([]*mutant, error) {
	var all []*mutant
	var errs []error
	var m *mutant
	for n := 1; lines.Scan(); n++ {
		sign, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case lines.Text() == "":
			m = nil
		case strings.HasPrefix(sign, "//"):
		case sign == "#":
			file, title, ok := strings.Cut(rest, ": ")
			if !ok {
				errs = append(errs, fmt.Errorf("%s:%d: want # file: title", name, n))
			}
			m = &mutant{file: file, title: title, list: strings.TrimSuffix(path.Base(name), ".txt"), at: fmt.Sprintf("%s:%d", name, n)}
			all = append(all, m)
		case m == nil:
			errs = append(errs, fmt.Errorf("%s:%d: a line outside any mutant", name, n))
		case sign == "-":
			m.before = append(m.before, rest)
		case sign == "+":
			m.after = append(m.after, rest)
		case sign == "=":
			m.same = rest
		case sign == "!":
			m.lives = rest
		default:
			errs = append(errs, fmt.Errorf("%s:%d: lines begin with #, -, +, =, ! or //", name, n))
		}
	}
	return all, errors.Join(append(errs, lines.Err())...)
}

// apply returns m's file, of the code in root, with the defect.
func (m *mutant) apply(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.at, err)
	}
	if len(m.before) == 0 {
		return nil, fmt.Errorf("%s: %s: there are no lines to replace", m.at, m)
	}
	lines := strings.Split(string(data), "\n")
	found := -1
	for i := range lines {
		if end := i + len(m.before); end > len(lines) || !slices.Equal(lines[i:end], m.before) {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("%s: %s: its lines stand there twice: add the line before", m.at, m)
		}
		found = i
	}
	if found < 0 {
		return nil, fmt.Errorf("%s: %s: its lines do not stand there: write it anew for the code as it is, or remove it", m.at, m)
	}
	return []byte(strings.Join(slices.Replace(lines, found, found+len(m.before), m.after...), "\n")), nil
}

// choose returns those of all whose package args name, or whose title has one of them.
func choose(all []*mutant, args []string) []*mutant {
	if len(args) == 0 {
		return all
	}
	var out []*mutant
	for _, m := range all {
		if slices.ContainsFunc(args, func(arg string) bool {
			if tree, ok := strings.CutSuffix(arg, "/..."); ok {
				return m.dir() == tree || strings.HasPrefix(m.dir(), tree+"/")
			}
			return m.dir() == strings.TrimSuffix(arg, "/") || !strings.HasPrefix(arg, "./") && strings.Contains(m.String(), arg)
		}) {
			out = append(out, m)
		}
	}
	return out
}
