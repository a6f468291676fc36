// Command shape measures how the code is laid out: how large its packages are, what they export for nobody, how long
// parameter lists are, and how many files a change of a Node and one of a Service pass. The latter is seen, not guessed:
// the real cloud-controller-manager, built with coverage counters, works for a real kube-apiserver and a simulated cloud.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

const help = `shape: how the code is laid out

  make shape
  make shape ARGS='-o json'

Production code is all outside test/, hack/ and docs/ but _test.go files. An exported name counts as used where another package
names it, tests too, or where something that is used there has it in its type. The files that an event passes are those of
which a statement has run between the event and the manager's rest. Told apart are those that run in as long an interval
without events, too, and helpers: files of packages that rest on no other package of the module (texts, backoff, the
contract's types), and of the clients' library (pkg/cloudauth). A file that calls none of the others answers by itself;
files that call each other, also through others, go two ways. It takes about three minutes.

Flags:
`

// shape is what is measured.
type shape struct {
	Packages []packageSize `json:"packages"`
	Files    int           `json:"files"`
	Lines    int           `json:"lines"`
	// Rebuilt are the lines below the folders rebuilt.
	Rebuilt int `json:"rebuiltLines"`
	// Exported is how many names packages export, Unnamed how many of them no other package names, and Unused those that
	// none uses either, as when it calls a function of which it is the result.
	Exported int      `json:"exported"`
	Unnamed  int      `json:"unnamed"`
	Unused   []string `json:"unused"`
	// Offered are as Unused, in packages that are for other modules.
	Offered []string `json:"offered"`
	// Parameters are the functions with the most after a context, those above mostParameters, the longest first.
	Parameters []parameterList `json:"parameters"`
	Longest    parameterList   `json:"longest"`
	Events     []event         `json:"events,omitempty"`
}

// What a package, and a list of parameters, should have at most.
const (
	mostFiles      = 25
	mostLines      = 3000
	mostParameters = 4
)

// api are the folders whose packages are for other modules, too: what a cloud implements and takes, logins, webhooks.
var api = []string{"pkg/await", "pkg/batcher", "pkg/cloud/cloudtest", "pkg/cloud/places", "pkg/cloudauth", "pkg/inflight", "pkg/inventory",
	"pkg/joint", "pkg/keylock", "pkg/lb/family", "pkg/marks", "webhooks", contract}

// contract is the package of what a cloud implements.
const contract = "pkg/cloud"

// rebuilt are folders whose size is looked at together.
var rebuilt = []string{"pkg/providers/openstack", "pkg/cloud/decorate"}

func main() { rig.Main("shape", start) }

func start(ctx context.Context, args []string, out io.Writer) error {
	fs := rig.NewFlagSet("shape", help, out)
	format := fs.String("o", "text", "`format`: text or json")
	events := fs.Bool("events", true, "run the manager to see which files events pass")
	timeout := fs.Duration("timeout", 3*time.Minute, "what each step of a run may take at most")
	keep := fs.Bool("keep", false, "keep the logs and say where they are")
	if err := rig.Parse(fs, args); err != nil {
		return err
	}
	say := out
	switch *format {
	case "json":
		say = io.Discard
	case "text":
	default:
		return fmt.Errorf("-o %s: it is text or json", *format)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	c := &code{root: strings.TrimSpace(string(root))}
	s, err := c.measure(ctx)
	if err != nil {
		return err
	}
	if *events {
		err := rig.InFolder(ctx, "shape", *keep, say, func(dir string) (err error) {
			s.Events, err = observe(ctx, c, dir, *timeout, say)
			return err
		})
		if err != nil {
			return err
		}
	}
	if *format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	return s.print(out)
}

// print writes the tables for a terminal.
func (s *shape) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("package\tfiles\tlines\t")
	for _, p := range s.Packages {
		line("%s\t%d\t%d\t%s", p.Package, p.Files, p.Lines, p.mark())
	}
	line("all\t%d\t%d\t", s.Files, s.Lines)
	line("%s\t\t%d\t", strings.Join(rebuilt, " + "), s.Rebuilt)
	line("\nexported names\t%d", s.Exported)
	line("of them named by their own package only\t%d", s.Unnamed)
	line("and not used by others without a name either\t%d", len(s.Unused)+len(s.Offered))
	line("and not offered to other modules either\t%d", len(s.Unused))
	for _, name := range s.Unused {
		line("  %s", name)
	}
	line("\nlongest parameter list after a context\t%d\t%s", s.Longest.Count, s.Longest.Function)
	for _, p := range s.Parameters {
		line("  %s\t%d", p.Function, p.Count)
	}
	err := w.Flush()
	for _, e := range s.Events {
		_, werr := fmt.Fprintf(out, "\n%s passes %d files, beside %d of helpers and %d that run without an event. %d answer by themselves (→), %d call each other (↔):\n",
			e.Name, len(e.Files), len(e.Helpers), len(e.Idle), len(e.Leaves), len(e.Circular))
		err = errors.Join(err, werr)
		for _, f := range e.Files {
			mark := " "
			if slices.Contains(e.Leaves, f) {
				mark = "→"
			} else if slices.Contains(e.Circular, f) {
				mark = "↔"
			}
			_, werr := fmt.Fprintf(out, "  %s %s\n", mark, f)
			err = errors.Join(err, werr)
		}
	}
	return err
}
