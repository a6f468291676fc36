package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// Decode reads a CredentialProviderConfig as strictly as a kubelet does: what it would refuse is a
// problem, and all of them come at once.
func Decode(file string, data []byte) (Config, []Finding) {
	d := decoder{file: file}
	tree, more, err := parseTree(data)
	if err != nil {
		cause, next := explainYAML(err, data)
		d.problem("", cause+": the kubelet does not start", next)
		return Config{}, d.findings
	}
	if more {
		d.warning("", "there is more than one YAML document in it, and the kubelet reads the first", "put all providers into the first, or each document into a file of a directory")
	}
	var c Config
	d.object("", tree, map[string]func(string, any){
		"apiVersion": d.text(&c.APIVersion),
		"kind":       d.text(&c.Kind),
		"providers":  d.list(func(path string, v any) { c.Providers = append(c.Providers, d.entry(path, v)) }),
	})
	d.checkHeader(c)
	return c, d.findings
}

// decoder walks through the tree of a file and collects what a kubelet would not take.
type decoder struct {
	file     string
	findings []Finding
}

func (d *decoder) problem(field, cause, next string) {
	d.findings = append(d.findings, Finding{Level: Problem, File: d.file, Field: field, Cause: cause, Next: next})
}

func (d *decoder) warning(field, cause, next string) {
	d.findings = append(d.findings, Finding{Level: Warning, File: d.file, Field: field, Cause: cause, Next: next})
}

// checkHeader checks apiVersion and kind.
func (d *decoder) checkHeader(c Config) {
	if c.Kind != configKind {
		d.problem("kind", fmt.Sprintf("it is %q and has to be %s: the kubelet does not start", cloudauth.Excerpt(c.Kind, 60), configKind), "write kind: "+configKind)
	}
	version, ok := strings.CutPrefix(c.APIVersion, configGroup+"/")
	known := false
	for _, v := range versions() {
		known = known || v == version
	}
	if !ok || !known {
		d.problem("apiVersion", fmt.Sprintf("it is %q, which the kubelet does not know: it does not start", cloudauth.Excerpt(c.APIVersion, 60)), "write apiVersion: "+configGroup+"/v1")
		return
	}
	for i, e := range c.Providers {
		if version != "v1" && e.TokenAttributes != nil {
			d.findings = append(d.findings, Finding{
				Level: Problem, File: d.file, Entry: e.Name, Field: fmt.Sprintf("providers[%d].tokenAttributes", i),
				Cause: c.APIVersion + " has no tokenAttributes: the kubelet does not start", Next: "write apiVersion: " + configGroup + "/v1 at the top of the file",
			})
		}
	}
}

// entry reads one provider. What is found in it is marked with its name.
func (d *decoder) entry(path string, v any) Entry {
	e := Entry{File: d.file}
	before := len(d.findings)
	d.object(path, v, map[string]func(string, any){
		"name":                 d.text(&e.Name),
		"apiVersion":           d.text(&e.APIVersion),
		"matchImages":          d.texts(&e.MatchImages),
		"defaultCacheDuration": d.duration(&e.CacheDuration),
		"args":                 d.texts(&e.Args),
		"env": d.list(func(path string, v any) {
			var one Variable
			d.object(path, v, map[string]func(string, any){"name": d.text(&one.Name), "value": d.text(&one.Value)})
			e.Env = append(e.Env, one)
		}),
		"tokenAttributes": func(path string, v any) {
			if v != nil {
				e.TokenAttributes = &TokenAttributes{}
				d.tokenAttributes(path, v, e.TokenAttributes)
			}
		},
	})
	for i := before; i < len(d.findings); i++ {
		d.findings[i].Entry = e.Name
	}
	return e
}

func (d *decoder) tokenAttributes(path string, v any, t *TokenAttributes) {
	d.object(path, v, map[string]func(string, any){
		"serviceAccountTokenAudience":          d.text(&t.Audience),
		"cacheType":                            d.text(&t.CacheType),
		"requireServiceAccount":                d.boolean(&t.Require),
		"requiredServiceAccountAnnotationKeys": d.texts(&t.RequiredAnnotations),
		"optionalServiceAccountAnnotationKeys": d.texts(&t.OptionalAnnotations),
	})
}

// object reads a map whose keys have to be these, each once.
func (d *decoder) object(path string, v any, fields map[string]func(path string, v any)) {
	if v == nil {
		return
	}
	pairs, ok := v.(yaml.MapSlice)
	if !ok {
		d.wrong(path, v, "a map")
		return
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		key := fmt.Sprint(p.Key)
		at := strings.TrimPrefix(path+"."+key, ".")
		read := fields[key]
		switch {
		case read == nil:
			d.problem(cloudauth.Excerpt(at, 120), "the kubelet knows no such field and does not start", unknownHint(key, fields))
			continue
		case seen[key]:
			d.problem(at, "the field is there twice: the kubelet does not start", "remove one")
		}
		seen[key] = true
		read(at, p.Value)
	}
}

func unknownHint(key string, fields map[string]func(string, any)) string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	if meant := nearest.Of(key, names); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "remove it"
}

// wrong is about a value of another type.
func (d *decoder) wrong(path string, v any, want string) {
	next := "correct it"
	switch v.(type) {
	case int, int64, uint64, float64, json.Number, bool:
		if want == "a text" {
			next = "put it in quotes"
		}
	}
	if path == "" {
		path = "the file"
	}
	d.problem(path, "it has to be "+want+": the kubelet does not start", next)
}

func (d *decoder) text(into *string) func(string, any) {
	return func(path string, v any) {
		if text, ok := v.(string); ok {
			*into = text
		} else if v != nil {
			d.wrong(path, v, "a text")
		}
	}
}

func (d *decoder) boolean(into **bool) func(string, any) {
	return func(path string, v any) {
		if b, ok := v.(bool); ok {
			*into = &b
		} else if v != nil {
			d.wrong(path, v, "true or false")
		}
	}
}

func (d *decoder) list(each func(path string, v any)) func(string, any) {
	return func(path string, v any) {
		values, ok := v.([]any)
		if !ok && v != nil {
			d.wrong(path, v, "a list")
		}
		for i, one := range values {
			each(fmt.Sprintf("%s[%d]", path, i), one)
		}
	}
}

func (d *decoder) texts(into *[]string) func(string, any) {
	return d.list(func(path string, v any) {
		text := ""
		d.text(&text)(path, v)
		*into = append(*into, text)
	})
}

// duration reads a time such as 10m, and keeps it as it is written.
func (d *decoder) duration(into *string) func(string, any) {
	return func(path string, v any) {
		text, ok := v.(string)
		if !ok && v != nil {
			*into = fmt.Sprint(v) // it is there, which is not to be said otherwise
			d.wrong(path, v, "a time with its unit, such as 10m")
			return
		}
		if parsed, err := time.ParseDuration(text); ok && (err != nil || parsed < 0) {
			d.problem(path, fmt.Sprintf("%q is no time that is 0 or longer: the kubelet does not start", cloudauth.Excerpt(text, 40)), "write a number with its unit, such as 10m or 12h")
		}
		*into = text
	}
}
