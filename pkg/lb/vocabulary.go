package lb

import (
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// portPlace stands in an annotation's name for the number of a port.
const portPlace = "{port}"

// vocabulary finds a provider's annotations by the names that stand at an object.
type vocabulary struct {
	byName      map[string]*cloud.Annotation // also by aliases
	withPort    []*cloud.Annotation
	annotations map[string]string // the object's
}

func newVocabulary(all []cloud.Annotation, annotations map[string]string) *vocabulary {
	v := &vocabulary{byName: make(map[string]*cloud.Annotation, len(all)), annotations: annotations}
	for i := range all {
		a := &all[i]
		if strings.Contains(a.Name, portPlace) {
			v.withPort = append(v.withPort, a)
		}
		for _, name := range append([]string{a.Name}, a.Aliases...) {
			v.byName[name] = a
		}
	}
	return v
}

// find returns the annotation that name is one of, and by which key Settings hold its value: empty
// for an alias where a name that goes before it is set.
func (v *vocabulary) find(name string) (a *cloud.Annotation, key string, ok bool) {
	if a, ok = v.byName[name]; ok && !strings.Contains(name, portPlace) {
		if name != stated(a, v.annotations) {
			return a, "", true
		}
		return a, a.Name, true
	}
	for _, a := range v.withPort {
		before, after, _ := strings.Cut(a.Name, portPlace)
		if rest, ok := strings.CutPrefix(name, before); ok {
			if port, ok := strings.CutSuffix(rest, after); ok && isPort(port) {
				return a, name, true
			}
		}
	}
	return nil, "", false
}

// stated returns that name of an annotation, without a port in it, which counts; its own when it is
// not set.
func stated(a *cloud.Annotation, annotations map[string]string) string {
	for _, name := range append([]string{a.Name}, a.Aliases...) {
		if _, ok := annotations[name]; ok {
			return name
		}
	}
	return a.Name
}

// names are all those of an annotation that stand at an object and count.
func names(a *cloud.Annotation, annotations map[string]string) []string {
	if !strings.Contains(a.Name, portPlace) {
		return []string{stated(a, annotations)}
	}
	v := newVocabulary([]cloud.Annotation{*a}, annotations)
	var out []string
	for name := range annotations {
		if _, key, ok := v.find(name); ok && key != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
