package gcfg

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

// Values are the values of a struct that Decode takes, by section, [Section "name"] for those with names, and key: what the file says, and
// for the rest the defaults. Keys without a value are left out. What is a secret by its type says so instead, and so does a URL's password.
func Values(conf any) map[string]map[string]string {
	by := iniSyntax
	if first := reflect.TypeOf(conf).Elem().Field(0).Tag; first.Get(by.tag) == "" && first.Get(yamlSyntax.tag) != "" {
		by = yamlSyntax // the file is YAML alone
	}
	out := map[string]map[string]string{}
	for _, s := range sectionsOf(conf, by) {
		if !s.named() {
			s.show(out, s.name, s.value)
			continue
		}
		for _, name := range s.value.MapKeys() {
			s.show(out, by.header(s.name, name.String()), s.value.MapIndex(name).Elem())
		}
	}
	return out
}

// show adds the values of a section.
func (s *section) show(to map[string]map[string]string, header string, from reflect.Value) {
	values := map[string]string{}
	for _, f := range s.fields {
		if text := textOfValue(from.FieldByIndex(f.index)); text != "" {
			values[f.name] = text
		}
	}
	if len(values) > 0 {
		to[header] = values
	}
}

func textOfValue(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return textOfValue(v.Elem())
	}
	switch value := v.Interface().(type) {
	case encoding.TextMarshaler: // a secret is one
		text, err := value.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	case fmt.Stringer:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = textOfValue(v.Index(i))
		}
		return strings.Join(parts, ",")
	case reflect.Map:
		if v.Len() == 0 {
			return ""
		}
	}
	return WithoutPassword(fmt.Sprint(v.Interface()))
}

// WithoutPassword is a value as a page may show it: a URL's password is hidden, and so is a user without one, which may be a token.
// What is no URL with a user stays.
func WithoutPassword(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return value
	}
	if _, has := u.User.Password(); !has {
		u.User = url.User("xxxxx") // as Redacted has it of passwords
	}
	return u.Redacted()
}
