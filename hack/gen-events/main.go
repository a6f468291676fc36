// Command gen-events writes docs/reference/events.md from the comments of the constants that are events' reasons.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen-events ROOT FILE")
		os.Exit(2)
	}
	text, err := reference(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], text, 0o644) //nolint:gosec // a document for everyone
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen-events:", err)
		os.Exit(1)
	}
}

// sections are the packages whose events are told, in this order.
var sections = []struct{ title, folder string }{
	{"Nodes whose instances are gone", "pkg/ccm/nodes"},
	{"Services", "pkg/controllers/service"},
	{"Routes", "pkg/controllers/routes"},
	{"Pod CIDRs", "pkg/controllers/nodeipam"},
	{"PersistentVolumes", "pkg/controllers/pvlabel"},
	{"Kubelets' serving certificates", "pkg/controllers/kubeletserving"},
	{"Registration of webhooks", "webhooks/registration"},
}

// event is a row of the document.
type event struct{ reason, kind, object, meaning, next string }

// told is what the comment of a reason is: "<type> on <objects>: <meaning>.", and where there is something to do " Next: <what>."
var told = regexp.MustCompile(`^(Normal|Warning) on ([A-Za-z]+(?: [a-z][a-z-]*| and [A-Z][A-Za-z]+)*): (.+?\.)(?: Next: (.+\.))?$`)

const intro = `# Events

Written by ` + "`make generate`" + ` from the code. ` + "`kubectl describe`" + ` shows the events of an object, ` + "`kubectl get events -A`" + ` all of them;
the API server keeps them for an hour. The same event is published again only after some minutes.

The framework's own controllers publish, beside these, ` + "`Synced`" + ` on a Node that was initialized, and ` + "`DeletingNode`" + ` and ` + "`DeletingNodeFailed`" + ` on
one whose instance is gone.
`

// reference is the document.
func reference(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(intro)
	for _, s := range sections {
		events, err := read(filepath.Join(root, s.folder))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s\n\n| Reason | Type | Object | What it says | What to do |\n|---|---|---|---|---|\n", s.title)
		for _, e := range events {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.reason, e.kind, e.object, e.meaning, e.next)
		}
	}
	return b.Bytes(), nil
}

// read returns the events of a package, sorted by their reasons.
func read(folder string) ([]event, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []event
	var errs []error
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		events, problems := eventsOf(f)
		out = append(out, events...)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("%s: %s", file, p))
		}
	}
	if len(out) == 0 {
		errs = append(errs, fmt.Errorf("%s: no reason of an event", folder))
	}
	slices.SortFunc(out, func(a, b event) int { return strings.Compare(a.reason, b.reason) })
	return out, errors.Join(errs...)
}

// eventsOf returns the events whose reasons a file declares, and what is wrong: a reason without such a comment, and an event whose
// reason is no constant.
func eventsOf(f *ast.File) (out []event, problems []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Names) == 1 && len(n.Values) == 1 && isReason(n.Names[0].Name) {
				e, err := row(n)
				if err != nil {
					problems = append(problems, err.Error())
				} else {
					out = append(out, e)
				}
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Event" || s.Sel.Name == "Eventf") && len(n.Args) > 3 {
				if l, ok := n.Args[2].(*ast.BasicLit); ok {
					problems = append(problems, "the reason "+l.Value+" is no constant")
				}
			}
		}
		return true
	})
	return out, problems
}

// isReason reports whether a constant is named as the reasons of events are.
func isReason(name string) bool {
	for _, prefix := range []string{"reason", "event"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
			return true
		}
	}
	return false
}

func row(n *ast.ValueSpec) (event, error) {
	name := n.Names[0].Name
	l, ok := n.Values[0].(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return event{}, fmt.Errorf("%s is no string", name)
	}
	reason, err := strconv.Unquote(l.Value)
	if err != nil {
		return event{}, fmt.Errorf("%s: %w", name, err)
	}
	found := told.FindStringSubmatch(strings.Join(strings.Fields(n.Doc.Text()), " "))
	if found == nil || found[1] == "Warning" && found[4] == "" {
		return event{}, fmt.Errorf(`the comment of %s must be "Normal on <object>: <meaning>." or "Warning on <object>: <meaning>. Next: <what to do>."`, name)
	}
	return event{reason, found[1], found[2], found[3], found[4]}, nil
}
