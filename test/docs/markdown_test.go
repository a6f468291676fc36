// Package docs holds no code: its tests run or parse what the documentation shows, and follow its links.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// page is a file of Markdown.
type page struct {
	file   string // from the root of the repository, with slashes
	lines  []string
	blocks []block
}

// block is what stands between two fences.
type block struct {
	where          string // file and line
	language, info string // the first word after the fence, and the others
	text           string // without the fence's indentation
}

// pages are README.md and its neighbors, and all below docs.
func pages(t *testing.T) (out []page) {
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
func read(t *testing.T, file, text string) page {
	t.Helper()
	p := page{file: file}
	var open *block
	var indent string
	for n, line := range strings.Split(text, "\n") {
		before, info, fence := strings.Cut(line, "```")
		fence = fence && strings.TrimSpace(before) == "" && !strings.Contains(info, "`")
		prose := ""
		switch {
		case fence && open == nil:
			language, rest, _ := strings.Cut(info, " ")
			indent, open = before, &block{where: fmt.Sprintf("%s:%d", file, n+1), language: language, info: rest}
		case fence:
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			prose = line
		}
		p.lines = append(p.lines, prose)
	}
	if open != nil {
		t.Errorf("%s: the block has no end", open.where)
	}
	return p
}
