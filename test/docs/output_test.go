package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/isthmus-cloud/isthmus/test/docs/markdown"
)

// pieces are the constant parts of all texts in the code of the programs, of the conformance suite and of the examples, the longest first:
// phrases, and names that are no everyday words.
var pieces = sync.OnceValues(func() ([]string, error) {
	seen := map[string]bool{}
	for _, dir := range []string{"cmd", "credentialprovider", "pkg", "webhooks", "test/conformance", "docs/examples"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") && !strings.Contains(dir, "/") { // other folders are of tests, and what they print
				return err
			}
			tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(file)), nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					note(seen, text.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out, nil
})

// verb is one of fmt's.
var verb = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)

// note puts the parts of a Go string between verbs and line ends into seen.
func note(seen map[string]bool, literal string) {
	text, err := strconv.Unquote(literal)
	if err != nil {
		return
	}
	for _, part := range verb.Split(text, -1) {
		for line := range strings.SplitSeq(part, "\n") {
			if line = strings.TrimSpace(line); len(line) >= 8 || len(line) >= 5 && strings.Contains(line, " ") {
				seen[line] = true
			}
		}
	}
}

// varying is what differs from run to run: what is quoted, has digits, slashes or equals signs, and the name of a test.
var varying = regexp.MustCompile(`--- FAIL: \S+|"[^"\n]*"|\S*[0-9/=]\S*`)

// said: what a program is shown to print is in its code. A third of the letters may be something else, values and what others say in
// the same breath; but each line of some length has some of ours. What stands in docs/reference is generated, or written by the test
// that judges it.
func said(b markdown.Block) error {
	if strings.HasPrefix(b.Where, "docs/reference/") {
		return nil
	}
	all, err := pieces()
	if err != nil {
		return err
	}
	left, total := 0, letters(b.Text)
	for line := range strings.Lines(b.Text) {
		rest := line
		for _, piece := range all {
			rest = strings.ReplaceAll(rest, piece, "\x00")
		}
		if letters(line)-letters(rest) < phrase && letters(varying.ReplaceAllString(line, "")) > 2*phrase {
			return fmt.Errorf("nothing of ours says %q", line)
		}
		left += letters(varying.ReplaceAllString(rest, ""))
	}
	if left*3 > total {
		return fmt.Errorf("%d of %d letters are in no text of our programs", left, total)
	}
	return nil
}

// phrase is how many letters of a line are ours at least.
const phrase = 12

func letters(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) {
			n++
		}
	}
	return n
}
