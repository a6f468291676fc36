package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// explainYAML words the library's errors for users, without values, which may be secret.
func explainYAML(err error) error {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return fmt.Errorf("it is no valid YAML: %s", withoutValues(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	// How the library words an unknown key. It is compiled only here: the program starts for every pull.
	unknownKey := regexp.MustCompile(`^line (\d+): field (.*) not found in type (?:.*)$`)
	var errs []error
	for _, m := range mistakes.Errors {
		if parts := unknownKey.FindStringSubmatch(m); parts != nil {
			hint := ""
			if meant := nearest.Of(parts[2], keys()); meant != "" {
				hint = "; did you mean " + meant + "?"
			}
			errs = append(errs, fmt.Errorf("line %s: the key %q is not known here%s", parts[1], cloudauth.Excerpt(parts[2], 60), hint))
			continue
		}
		m, _, _ = strings.Cut(m, " in type ")
		errs = append(errs, errors.New(withoutValues(m)))
	}
	return errors.Join(errs...)
}

// withoutValues removes what the YAML library quotes of the file.
func withoutValues(message string) string {
	parts := strings.Split(message, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	return cloudauth.Excerpt(strings.Join(parts, "`"), 300)
}

// keys are all keys of the file.
func keys() []string {
	var all []string
	var collect func(reflect.Type)
	collect = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for f := range t.Fields() {
			key, inline, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key == "-" || key == "" && inline == "" {
				continue
			}
			if key != "" {
				all = append(all, key)
			}
			collect(f.Type)
		}
	}
	collect(reflect.TypeFor[Config]())
	return all
}
