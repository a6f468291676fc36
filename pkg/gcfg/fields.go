package gcfg

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
	"gopkg.in/gcfg.v1/types"
)

// section is one field of the struct given to Decode.
type section struct {
	name   string
	value  reflect.Value // a struct, or a map[string]*struct
	plain  bool          // a map that takes the section without a name, too
	same   func(a, b string) bool
	fields []field
}

type sections []*section

// field is one key of a section.
type field struct {
	name  string
	index []int
	typ   reflect.Type
}

// sectionsOf lists the sections of the struct that into points to. It panics when into is
// of another shape, because that is a mistake in the program and not in a file.
func sectionsOf(into any, by syntax) sections {
	root := reflect.ValueOf(into).Elem()
	var all sections
	for _, sf := range reflect.VisibleFields(root.Type()) {
		if !sf.IsExported() {
			continue
		}
		s := &section{same: by.same, name: by.nameOf(sf), value: root.FieldByIndex(sf.Index), plain: sf.Tag.Get("unnamed") == "true"}
		typ := sf.Type
		if typ.Kind() == reflect.Map {
			typ = typ.Elem().Elem()
		}
		for _, kf := range reflect.VisibleFields(typ) {
			if kf.IsExported() && kf.Tag.Get(by.tag) != "-" && !kf.Anonymous {
				s.fields = append(s.fields, field{name: by.keyOf(kf), index: kf.Index, typ: kf.Type})
			}
		}
		all = append(all, s)
	}
	return all
}

func (s sections) find(name string) (*section, bool) {
	for _, sec := range s {
		if sec.same(sec.name, name) {
			return sec, true
		}
	}
	return nil, false
}

func (s sections) names() []string {
	names := make([]string, 0, len(s))
	for _, sec := range s {
		names = append(names, sec.name)
	}
	return names
}

// fits reports whether the section can have this name, "" for none.
func (s *section) fits(sub string) bool { return s.named() == (sub != "") || s.plain && sub == "" }

// named reports whether the section's header has a name in quotes.
func (s *section) named() bool { return s.value.Kind() == reflect.Map }

// target returns the struct for the header's name, making it where there is none yet.
func (s *section) target(sub string) reflect.Value {
	if !s.named() {
		return s.value
	}
	if s.value.IsNil() {
		s.value.Set(reflect.MakeMap(s.value.Type()))
	}
	key := reflect.ValueOf(sub).Convert(s.value.Type().Key())
	p := s.value.MapIndex(key)
	if !p.IsValid() {
		p = reflect.New(s.value.Type().Elem().Elem())
		s.value.SetMapIndex(key, p)
	}
	return p.Elem()
}

func (s *section) find(key string) (field, bool) {
	for _, f := range s.fields {
		if s.same(f.name, key) {
			return f, true
		}
	}
	return field{}, false
}

func (s *section) keys() []string {
	keys := make([]string, 0, len(s.fields))
	for _, f := range s.fields {
		keys = append(keys, f.name)
	}
	return keys
}

// repeatable reports whether repeated keys are collected.
func (f field) repeatable() bool { return f.typ.Kind() == reflect.Slice && f.typ.Name() == "" }

// set stores a value of the key; blank is a key without "=".
func (f field) set(target reflect.Value, value string, blank bool) error {
	v := target.FieldByIndex(f.index)
	if f.repeatable() {
		if blank { // a key alone empties the list, as it does in gcfg
			v.SetZero()
			return nil
		}
		elem := reflect.New(f.typ.Elem()).Elem()
		if err := setValue(elem, value, blank); err != nil {
			return err
		}
		v.Set(reflect.Append(v, elem))
		return nil
	}
	return setValue(v, value, blank)
}

// takes reports what is wrong with a list or a map of YAML as the key's value.
func (f field) takes(kind yaml.Kind) error {
	switch {
	case kind == yaml.SequenceNode && f.typ != reflect.TypeFor[List]():
		return errors.New("it takes one value, not a list")
	case kind == yaml.MappingNode && f.typ != reflect.TypeFor[Pairs]():
		return errors.New("it takes one value, not a map")
	}
	return nil
}

// doubt is what is to be said of a value that was taken.
func (f field) doubt(target reflect.Value, value string) string {
	if d, ok := target.FieldByIndex(f.index).Addr().Interface().(interface{ Doubt(value string) string }); ok {
		return d.Doubt(value)
	}
	return ""
}

var errBlank = errors.New("the key needs a value (key = value)")

func setValue(v reflect.Value, value string, blank bool) error {
	if v.Kind() == reflect.Pointer {
		elem := reflect.New(v.Type().Elem())
		if err := setValue(elem.Elem(), value, blank); err != nil {
			return err
		}
		v.Set(elem)
		return nil
	}
	u, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	if v.Kind() == reflect.Bool && blank && !isText {
		v.SetBool(true)
		return nil
	}
	if blank {
		return errBlank
	}
	if isText {
		return u.UnmarshalText([]byte(value))
	}
	if d, ok := v.Addr().Interface().(*time.Duration); ok {
		return setDuration(d, value)
	}
	return setKind(v, value)
}

func setDuration(d *time.Duration, value string) error {
	parsed, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("%q is no duration; write for example 30s, 10m or 1h", value)
	}
	*d = parsed
	return nil
}

func setKind(v reflect.Value, value string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(value)
	case reflect.Bool:
		b, err := types.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", value)
		}
		v.SetBool(b)
	case reflect.Int:
		if err := types.ParseInt(v.Addr().Interface(), value, types.Dec|types.Hex); err != nil {
			return fmt.Errorf("%q is no integer that fits here", value)
		}
	default:
		return fmt.Errorf("values of type %s are not supported", v.Type())
	}
	return nil
}
