package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// ours checks the entries that run this program: whether what they are to serve and what leads to
// them go together.
func (c *Check) ours(entries []kubelet.Entry) []kubelet.Finding {
	var all []*ourEntry
	for _, e := range entries {
		if isOurs(filepath.Join(c.options.BinDir, e.Name)) {
			all = append(all, &ourEntry{Entry: e, parse: c.options.Parse, find: asNamed})
		}
	}
	return checkOurs(all)
}

// checkOurs reads and checks entries that run this program.
func checkOurs(all []*ourEntry) []kubelet.Finding {
	for _, o := range all {
		o.read()
	}
	var findings []kubelet.Finding
	reported := map[string]bool{}
	for _, o := range all {
		o.patterns()
		o.tokens()
		o.environment()
		for _, k := range o.kinds {
			o.reachable(k, all, reported)
		}
		findings = append(findings, o.findings...)
	}
	for _, o := range all {
		findings = append(findings, untrustedNames(kubelet.Problem, append(namedBy(o.Entry), o.paths...), o.find)...)
	}
	return findings
}

// isOurs reports whether a program is this one, perhaps by another name or another version of it.
func isOurs(program string) bool {
	if target, err := filepath.EvalSymlinks(program); err == nil {
		program = target
	}
	if strings.HasPrefix(filepath.Base(program), credentialprovider.Program) {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		return false
	}
	a, errA := os.Stat(self)
	b, errB := os.Stat(program)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// ourEntry is an entry that runs this program.
type ourEntry struct {
	kubelet.Entry
	// parse reads its arguments as the program does.
	parse func(args []string) (config.Source, error)
	// find says where a file that is named is read.
	find func(file string) string
	// paths are those that were looked for, as they are named.
	paths []string
	// installs is the directory into which what it names is about to be installed; "" for a node as it is.
	installs  string
	kinds     []servedKind
	anonymous []string
	findings  []kubelet.Finding
}

// servedKind is a kind of registries that an entry serves.
type servedKind struct {
	config.Kind
	identity credentialprovider.Identity
	patterns []string
}

func (o *ourEntry) add(level kubelet.Level, field, cause, next string) {
	o.findings = append(o.findings, kubelet.Finding{Level: level, File: o.File, Entry: o.Name, Field: field, Cause: cause, Next: next})
}

// locate is find, which is remembered.
func (o *ourEntry) locate(file string) string {
	o.paths = append(o.paths, file)
	return o.find(file)
}

// refused begins what is said of arguments that the program does not take.
const refused = "the program does not take them: "

// read reads what the arguments say, as the program would.
func (o *ourEntry) read() {
	refuse := func(err error) {
		level, next := kubelet.Problem, "correct it"
		if errors.Is(err, fs.ErrPermission) {
			level, next = kubelet.Unchecked, "run this as root"
		}
		line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
		o.add(level, "args", refused+line, next)
	}
	source, err := o.parse(o.Args)
	if err != nil {
		refuse(err)
		return
	}
	for _, file := range []string{source.File, source.CloudConfig} {
		if file != "" && !filepath.IsAbs(file) {
			o.add(kubelet.Warning, "args", file+" is looked for in the kubelet's working directory", "write it with its directory")
		}
	}
	if source.File != "" {
		source.File = o.locate(source.File)
	}
	c, err := source.Read()
	if err != nil {
		refuse(err)
		return
	}
	kinds := c.Kinds()
	for _, k := range kinds {
		o.files(k)
	}
	o.anonymous = c.AnonymousRegistries
	for _, k := range kinds {
		provider, warnings, err := k.Open(credentialprovider.Options{Find: o.locate})
		for _, w := range warnings {
			o.add(kubelet.Warning, "args", w, "correct it")
		}
		if err != nil {
			refuse(err)
			continue
		}
		who, err := credentialprovider.ParseIdentity(string(k.Identity()))
		if err != nil {
			refuse(err)
			continue
		}
		served := servedKind{Kind: k, identity: who, patterns: provider.MatchImages()}
		if len(served.patterns) == 0 {
			o.add(kubelet.Problem, "args", k.Name+" serves no registry: "+provider.Describe(), "add one, or remove "+k.Name)
		}
		o.kinds = append(o.kinds, served)
	}
}

// patterns finds elements of matchImages that lead to nothing that is served.
func (o *ourEntry) patterns() {
	served := slices.Clone(o.anonymous)
	for _, k := range o.kinds {
		served = append(served, k.patterns...)
	}
	if len(served) == 0 {
		return // that is said already
	}
	for i, match := range o.MatchImages {
		plain := strings.Replace(match, ":443", "", 1) // images may write the port that is meant anyway
		if slices.ContainsFunc(served, func(s string) bool { return kubelet.Overlap(match, s) || kubelet.Overlap(plain, s) }) || kubelet.NeverMatches(match) {
			continue
		}
		next := "remove it, or let the program serve it (args)"
		if meant := nearestPattern(match, served); meant != "" {
			next = "did you mean " + meant + "? A * stands for one part of a host, and a port has to be the image's"
		}
		o.add(kubelet.Problem, fmt.Sprintf("matchImages[%d] %q", i, match), "no registry that the program is to serve matches it: it fails for such images", next)
	}
}

// nearestPattern is what is served in the same domain: by the most labels at the end that are the same.
func nearestPattern(match string, served []string) string {
	host := func(pattern string) []string {
		pattern, _, _ = strings.Cut(pattern, "/")
		pattern, _, _ = strings.Cut(pattern, ":")
		return strings.Split(pattern, ".")
	}
	best, most := "", 1
	for _, s := range served {
		a, b := host(match), host(s)
		same := 0
		for same < len(a) && same < len(b) && a[len(a)-1-same] == b[len(b)-1-same] {
			same++
		}
		if same > most {
			best, most = s, same
		}
	}
	return best
}

// named are the registries that the user named: all where a kind knows no others, and else those that
// it would not have without the user's configuration (mirrors).
func (k servedKind) named() []string {
	isPattern := func(p string) bool { return strings.Contains(p, "*") }
	if !slices.ContainsFunc(k.patterns, isPattern) {
		return k.patterns
	}
	provider, _, err := k.Bare().Open(credentialprovider.Options{})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(k.patterns), func(p string) bool { return isPattern(p) || slices.Contains(provider.MatchImages(), p) })
}

// leadsTo reports whether an image of a kind gets to the entry.
func (o *ourEntry) leadsTo(k servedKind) bool {
	return slices.ContainsFunc(o.MatchImages, func(m string) bool {
		return slices.ContainsFunc(k.patterns, func(p string) bool { return kubelet.Overlap(m, p) })
	})
}

// reachable finds registries that are configured, but to which no entry leads. What all's entries
// have in common is reported once.
func (o *ourEntry) reachable(k servedKind, all []*ourEntry, reported map[string]bool) {
	covered := func(pattern string) bool {
		return slices.ContainsFunc(all, func(e *ourEntry) bool {
			return slices.ContainsFunc(e.MatchImages, func(m string) bool { return kubelet.Overlap(m, pattern) })
		})
	}
	if !slices.ContainsFunc(k.patterns, covered) {
		if len(k.patterns) > 0 && !reported[k.Name] {
			meant := k.patterns[0]
			for _, m := range o.MatchImages {
				meant = cmp.Or(nearestPattern(m, k.patterns), meant)
			}
			level := kubelet.Warning // the file of --config may be for more than this entry
			if len(k.named()) > 0 {
				level = kubelet.Problem
			}
			o.add(level, "matchImages", "none leads to a registry of "+k.Name+", which the program is to serve: the kubelet never runs it for them", "add "+meant+", or remove "+k.Name+" from args")
		}
		reported[k.Name] = true
		return
	}
	for _, p := range k.named() {
		if covered(p) || reported[p] {
			continue
		}
		reported[p] = true
		o.add(kubelet.Problem, "matchImages", "none leads to "+p+", which the program is to serve: the kubelet never runs it for that", "add "+p)
	}
}
