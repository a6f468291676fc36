package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#{1,6} (.*)$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// TestLinks: what the pages link to in this repository is there, with its heading, and no page is
// without a way to it from README.md.
func TestLinks(t *testing.T) {
	all := map[string]markdown.Page{}
	for _, p := range markdown.Pages(t, root) {
		all[p.File] = p
	}
	checked, reached, queue := 0, map[string]bool{"README.md": true}, []string{"README.md"}
	for len(queue) > 0 {
		p := all[queue[0]]
		queue = queue[1:]
		for _, target := range links(p) {
			checked++
			file, fragment := resolve(p.File, target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil || strings.HasPrefix(file, "..") {
				t.Errorf("%s links to %s, which is not there", p.File, target)
				continue
			}
			to, isPage := all[file]
			if fragment != "" && (!isPage || !anchors(to)[fragment]) {
				t.Errorf("%s links to %s, which has no such heading", p.File, target)
			}
			if isPage && !reached[file] {
				reached[file], queue = true, append(queue, file)
			}
		}
	}
	for file := range all {
		if !reached[file] {
			t.Errorf("no links lead from README.md to %s", file)
		}
	}
	if checked < 300 {
		t.Errorf("only %d links: this test checks too little", checked)
	}
}

// links are those of a page to this repository.
func links(p markdown.Page) (out []string) {
	for _, line := range p.Lines {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllStringFunc(line, func(s string) string { return strings.ReplaceAll(s, "](", "] (") }), -1) {
			if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func resolve(from, target string) (file, fragment string) {
	file, fragment, _ = strings.Cut(target, "#")
	if file == "" {
		return from, fragment
	}
	return path.Join(path.Dir(from), file), fragment
}

// anchors are the names that GitHub gives the headings of a page, and those that it has itself.
func anchors(p markdown.Page) map[string]bool {
	out := map[string]bool{}
	for _, line := range p.Lines {
		for _, m := range anchor.FindAllStringSubmatch(line, -1) {
			out[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, text)
		for n, unique := 1, name; ; n++ { // a second heading of a text gets a number
			if !out[unique] {
				out[unique] = true
				break
			}
			unique = name + "-" + string(rune('0'+n))
		}
	}
	return out
}
