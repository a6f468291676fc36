package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Validate returns what is wrong with the entries: what keeps the kubelet from starting, and what
// keeps it from running a provider. binDir is the kubelet's --image-credential-provider-bin-dir.
func Validate(entries []Entry, binDir string) []Finding {
	var v validator
	seen := map[string]Entry{}
	for _, e := range entries {
		v.entry = e
		if first, twice := seen[e.Name]; twice {
			where := "in the same file"
			if first.File != e.File {
				where = "in " + first.File
			}
			v.problem("name", "another entry has the same name, "+where+": the kubelet does not start", "give one another name, and the program a second name in the directory: ln -s "+e.Name+" OTHER")
		}
		seen[e.Name] = e
		v.name(binDir)
		v.versionAndCache()
		v.images()
		v.environment()
		if e.TokenAttributes != nil {
			v.tokens(*e.TokenAttributes)
		}
	}
	return v.findings
}

// validator collects what is wrong with an entry.
type validator struct {
	entry    Entry
	findings []Finding
}

func (v *validator) add(level Level, field, cause, next string) {
	v.findings = append(v.findings, Finding{Level: level, File: v.entry.File, Entry: v.entry.Name, Field: field, Cause: cause, Next: next})
}

func (v *validator) problem(field, cause, next string) { v.add(Problem, field, cause, next) }

// name checks the name and the program of that name.
func (v *validator) name(binDir string) {
	name := v.entry.Name
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/ ") {
		v.problem("name", fmt.Sprintf("%q is no name of a program in the directory %s: the kubelet does not start", cloudauth.Excerpt(name, 80), binDir), "write the file's name, without / and spaces")
		return
	}
	if binDir == "" {
		return
	}
	program := filepath.Join(binDir, name)
	if runtime.GOOS == "windows" && filepath.Ext(name) != ".exe" {
		program += ".exe" // as the kubelet finds it there, where files have no run bit
	}
	info, err := os.Stat(program)
	switch {
	case err != nil && os.IsPermission(err):
		v.add(Unchecked, "name", program+" cannot be looked at", "run this as root")
	case err != nil:
		next := "put the program there, or correct --image-credential-provider-bin-dir of the kubelet"
		if link, linkErr := os.Readlink(program); linkErr == nil {
			next = "it is a link to " + link + ", which is not there; correct it"
		}
		v.problem("name", "there is no "+program+": the kubelet does not start", next)
	case info.IsDir():
		v.problem("name", program+" is a directory: the kubelet does not start", "put the program there")
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		v.problem("name", program+" has no run bit: the kubelet does not start", "chmod 0755 "+program)
	}
}

// versionAndCache checks apiVersion and defaultCacheDuration.
func (v *validator) versionAndCache() {
	version, ok := strings.CutPrefix(v.entry.APIVersion, ProviderGroup+"/")
	if !ok || !slices.Contains(versions(), version) {
		cause := fmt.Sprintf("it is %q, which the kubelet does not know: it does not start", cloudauth.Excerpt(v.entry.APIVersion, 80))
		if v.entry.APIVersion == "" {
			cause = "it is not set: the kubelet does not start"
		}
		v.problem("apiVersion", cause, "write apiVersion: "+ProviderGroup+"/v1")
	} else if version != "v1" && v.entry.TokenAttributes != nil {
		v.problem("apiVersion", "with tokenAttributes it has to be v1: the kubelet does not start", "write apiVersion: "+ProviderGroup+"/v1")
	}
	if v.entry.CacheDuration == "" {
		v.problem("defaultCacheDuration", "it is not set: the kubelet does not start", "write defaultCacheDuration: 10m")
	}
}

// images checks matchImages.
func (v *validator) images() {
	if len(v.entry.MatchImages) == 0 {
		v.problem("matchImages", "there are none: the kubelet does not start", "write the registries, such as registry.example.com")
	}
	seen := map[string]bool{}
	for i, match := range v.entry.MatchImages {
		field := fmt.Sprintf("matchImages[%d] %q", i, cloudauth.Excerpt(match, 120))
		if f := faultOf(match); f != nil {
			v.add(f.level, field, f.cause, f.next)
		}
		if seen[match] {
			v.add(Warning, field, "it is there twice", "remove one")
		}
		seen[match] = true
	}
}

// environment checks env.
func (v *validator) environment() {
	values := map[string]string{}
	for i, e := range v.entry.Env {
		field := fmt.Sprintf("env[%d] %s", i, cloudauth.Excerpt(e.Name, 60))
		before, twice := values[e.Name]
		switch {
		case e.Name == "" || strings.ContainsAny(e.Name, "=\x00 "):
			v.problem(field, "it is no name of a variable", "write name and value apart")
		case twice && before != e.Value:
			v.problem(field, "it is there twice with different values, and the last one counts", "remove one")
		case twice:
			v.add(Warning, field, "it is there twice", "remove one")
		}
		values[e.Name] = e.Value
	}
}

// tokens checks tokenAttributes.
func (v *validator) tokens(t TokenAttributes) {
	const at = "tokenAttributes."
	if t.Audience == "" {
		v.problem(at+"serviceAccountTokenAudience", "it is not set: the kubelet does not start", "write for whom the tokens are, as the cloud expects it")
	}
	switch t.CacheType {
	case CacheToken, CacheServiceAccount:
	case "":
		v.problem(at+"cacheType", "it is not set: the kubelet does not start", "write cacheType: "+CacheServiceAccount+", or "+CacheToken+" if an answer is for one pod alone")
	default:
		v.problem(at+"cacheType", fmt.Sprintf("it is %q and has to be %s or %s: the kubelet does not start", cloudauth.Excerpt(t.CacheType, 40), CacheServiceAccount, CacheToken), "write cacheType: "+CacheServiceAccount)
	}
	switch {
	case t.Require == nil:
		v.problem(at+"requireServiceAccount", "it is not set: the kubelet does not start", "write requireServiceAccount: true")
	case !*t.Require && len(t.RequiredAnnotations) > 0:
		v.problem(at+"requireServiceAccount", "with requiredServiceAccountAnnotationKeys it has to be true: the kubelet does not start", "write requireServiceAccount: true")
	}
	v.annotationKeys(at+"requiredServiceAccountAnnotationKeys", t.RequiredAnnotations, nil)
	v.annotationKeys(at+"optionalServiceAccountAnnotationKeys", t.OptionalAnnotations, t.RequiredAnnotations)
}

// annotationKeys checks the keys of annotations, none of which may be among those of another list.
func (v *validator) annotationKeys(field string, keys, others []string) {
	seen := map[string]bool{}
	for _, key := range keys {
		switch {
		case !isAnnotationKey(key):
			v.problem(field, fmt.Sprintf("%q is no key of an annotation: the kubelet does not start", cloudauth.Excerpt(key, 80)), "write prefix/name")
		case seen[key]:
			v.problem(field, key+" is there twice: the kubelet does not start", "remove one")
		case slices.Contains(others, key):
			v.problem(field, key+" is required as well: the kubelet does not start", "remove it here or there")
		}
		seen[key] = true
	}
}

// isAnnotationKey reports whether a text is a qualified name, whatever its case.
func isAnnotationKey(key string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	key = strings.ToLower(key)
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	for _, label := range strings.Split(prefix, ".") {
		if found && (label == "" || strings.Trim(label, letters+"-") != "" || strings.Trim(label, "-") != label) {
			return false
		}
	}
	return len(prefix) <= 253 && name != "" && len(name) <= 63 && strings.Trim(name, letters+"-_.") == "" && strings.Trim(name, "-_.") == name
}

// Duration is defaultCacheDuration, 0 if it is not valid.
func (e Entry) Duration() time.Duration {
	d, err := time.ParseDuration(e.CacheDuration)
	if err != nil {
		return 0
	}
	return d
}
