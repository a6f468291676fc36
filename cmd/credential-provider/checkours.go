package main

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
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// ours checks the entries that run this program: whether what they are to serve and what leads to
// them go together.
func (c *check) ours(entries []kubelet.Entry) []kubelet.Finding {
	var all []*ourEntry
	for _, e := range entries {
		if isOurs(filepath.Join(c.options.binDir, e.Name)) {
			all = append(all, &ourEntry{Entry: e, find: asNamed})
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
	if strings.HasPrefix(filepath.Base(program), name) {
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
	section  section
	identity credentialprovider.Identity
	audience string
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
	parsed, err := parse(o.Args)
	if err != nil {
		refuse(err)
		return
	}
	for _, file := range []string{parsed.config, parsed.cloudConfig} {
		if file != "" && !filepath.IsAbs(file) {
			o.add(kubelet.Warning, "args", file+" is looked for in the kubelet's working directory", "write it with its directory")
		}
	}
	if parsed.config != "" {
		parsed.config = o.locate(parsed.config)
	}
	c, err := parsed.configuration()
	if err != nil {
		refuse(err)
		return
	}
	o.files(c)
	o.anonymous = c.AnonymousRegistries
	for _, s := range sections() {
		identity := s.identity(c)
		if identity == nil {
			continue
		}
		provider, warnings, err := s.open(c, credentialprovider.Options{Find: o.locate})
		for _, w := range warnings {
			o.add(kubelet.Warning, "args", w, "correct it")
		}
		if err != nil {
			refuse(err)
			continue
		}
		who, err := credentialprovider.ParseIdentity(string(*identity))
		if err != nil {
			refuse(err)
			continue
		}
		k := servedKind{section: s, identity: who, audience: s.audience(c), patterns: provider.MatchImages()}
		if len(k.patterns) == 0 {
			o.add(kubelet.Problem, "args", s.name+" serves no registry: "+provider.Describe(), "add one, or remove "+s.name)
		}
		o.kinds = append(o.kinds, k)
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
	var bare config
	k.section.enable(&bare)
	provider, _, err := k.section.open(&bare, credentialprovider.Options{})
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
		if len(k.patterns) > 0 && !reported[k.section.name] {
			meant := k.patterns[0]
			for _, m := range o.MatchImages {
				meant = cmp.Or(nearestPattern(m, k.patterns), meant)
			}
			level := kubelet.Warning // the file of --config may be for more than this entry
			if len(k.named()) > 0 {
				level = kubelet.Problem
			}
			o.add(level, "matchImages", "none leads to a registry of "+k.section.name+", which the program is to serve: the kubelet never runs it for them", "add "+meant+", or remove "+k.section.name+" from args")
		}
		reported[k.section.name] = true
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

// tokens compares tokenAttributes with the identities of the kinds that the entry leads to.
func (o *ourEntry) tokens() {
	t := o.TokenAttributes
	for _, k := range o.kinds {
		pod := k.identity == credentialprovider.ServiceAccountIdentity
		switch {
		case !o.leadsTo(k):
			continue
		case pod && t == nil:
			o.add(kubelet.Problem, "tokenAttributes", "they are not there, but "+k.section.name+" is configured for the identity of service accounts: every image of it is refused", "add them ("+name+" config --identity=serviceAccount prints them), or set the identity node")
		case !pod && t != nil:
			o.add(kubelet.Problem, "tokenAttributes", k.section.name+" is configured for the node's identity and takes no tokens: every image of it is refused", "remove them, or set the identity serviceAccount")
		case pod:
			o.tokensOf(k, *t)
		}
	}
}

func (o *ourEntry) tokensOf(k servedKind, t kubelet.TokenAttributes) {
	if k.audience != "" && t.Audience != "" && t.Audience != k.audience {
		o.add(kubelet.Warning, "tokenAttributes.serviceAccountTokenAudience", fmt.Sprintf("it is %s, and %s usually wants %s", t.Audience, k.section.name, k.audience), "make sure that the cloud takes it")
	}
	if t.Require != nil && !*t.Require {
		o.add(kubelet.Warning, "tokenAttributes.requireServiceAccount", "pods without a service account (static pods) have no token, and "+k.section.name+" refuses them", "serve their images by another entry with the node's identity")
	}
	listed := slices.Concat(t.RequiredAnnotations, t.OptionalAnnotations)
	if len(k.section.annotations) > 0 && !slices.ContainsFunc(k.section.annotations, func(a string) bool { return slices.Contains(listed, a) }) {
		o.add(kubelet.Warning, "tokenAttributes.optionalServiceAccountAnnotationKeys", "none of the annotations that "+k.section.name+" reads is listed, so that it never sees one", "list "+k.section.annotations[0])
	}
	for _, key := range t.RequiredAnnotations {
		o.add(kubelet.Warning, "tokenAttributes.requiredServiceAccountAnnotationKeys", "for pods whose service account has no "+key+" the kubelet does not run the program and says nothing", "list it under optionalServiceAccountAnnotationKeys to get an error instead")
	}
}

// loginVariables are variables of the node's login, which mean nothing for the identity of service
// accounts, and podVariables the other way around, by kind.
func loginVariables() map[string][]string {
	return map[string][]string{
		"acr":              {"AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE"},
		"artifactregistry": {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GCE_METADATA_HOST"},
		"ecr":              {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"},
		"openstack":        {"OS_USERNAME", "OS_PASSWORD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_SECRET"},
	}
}

func podVariables() map[string][]string { return map[string][]string{"ecr": {"AWS_ECR_ROLE_ARN"}} }

// environment finds variables that contradict the identity.
func (o *ourEntry) environment() {
	set := map[string]bool{}
	for _, v := range o.Env {
		set[v.Name] = v.Value != ""
	}
	if set["AWS_ACCESS_KEY_ID"] != set["AWS_SECRET_ACCESS_KEY"] {
		o.add(kubelet.Problem, "env", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and one is not set", "set both or none")
	}
	for _, k := range o.kinds {
		unused, what := loginVariables()[k.section.name], "of service accounts"
		if k.identity == credentialprovider.NodeIdentity {
			unused, what = podVariables()[k.section.name], "node"
		}
		for _, v := range unused {
			if set[v] {
				o.add(kubelet.Warning, "env "+v, "it means nothing to "+k.section.name+" with the identity "+what, "remove it")
			}
		}
	}
}
