// Package markdown reads the documentation for tests: its pages, their blocks, and the command lines of our programs in them.
package markdown

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Page is a file of Markdown.
type Page struct {
	File   string   // from the root of the repository, with slashes
	Lines  []string // those of blocks are empty
	Blocks []Block
}

// Block is what stands between two fences.
type Block struct {
	Where          string // file and line
	Language, Info string // the first word after the fence, and the others
	Text           string // without the fence's indentation
}

// Pages are README.md and its neighbors, and all below docs. root is the repository's.
func Pages(t *testing.T, root string) (out []Page) {
	t.Helper()
	add := func(file string) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, read(t, file, string(data)))
	}
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range top {
		add(filepath.Base(file))
	}
	err = fs.WalkDir(os.DirFS(root), "docs", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			add(file)
		}
		return err
	})
	if err != nil || len(out) < 40 {
		t.Fatalf("%d pages, %v: this test would check nothing", len(out), err)
	}
	return out
}

// read splits a page into lines of prose, where those of blocks are empty, and blocks.
func read(t *testing.T, file, text string) Page {
	t.Helper()
	p := Page{File: file}
	var open *Block
	var indent string
	for n, line := range strings.Split(text, "\n") {
		before, info, fence := strings.Cut(line, "```")
		fence = fence && strings.TrimSpace(before) == "" && !strings.Contains(info, "`")
		prose := ""
		switch {
		case fence && open == nil:
			language, rest, _ := strings.Cut(info, " ")
			indent, open = before, &Block{Where: fmt.Sprintf("%s:%d", file, n+1), Language: language, Info: rest}
		case fence:
			p.Blocks, open = append(p.Blocks, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		default:
			prose = line
		}
		p.Lines = append(p.Lines, prose)
	}
	if open != nil {
		t.Errorf("%s: the block has no end", open.Where)
	}
	return p
}
