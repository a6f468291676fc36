package gcfg

import (
	"fmt"
	"reflect"
	"strings"
)

// syntax is how a file is written.
type syntax struct {
	tag     string                           // the struct tag that has the names
	same    func(a, b string) bool           // whether two names are the same
	header  func(section, sub string) string // how people call a section
	between string                           // is between that and the name of a key
}

var iniSyntax = syntax{tag: "gcfg", same: strings.EqualFold, between: " ", header: func(section, sub string) string {
	if sub != "" {
		return fmt.Sprintf("[%s %q]", section, sub)
	}
	return "[" + section + "]"
}}

var yamlSyntax = syntax{tag: "yaml", same: func(a, b string) bool { return a == b }, between: ".", header: func(section, sub string) string {
	if sub != "" {
		return section + "." + sub
	}
	return section
}}

// nameOf is the name of a field.
func (s *syntax) nameOf(sf reflect.StructField) string {
	if name, _, _ := strings.Cut(sf.Tag.Get(s.tag), ","); name != "" {
		return name
	}
	return sf.Name
}

// keyOf is the name of a field that is a key.
func (s *syntax) keyOf(sf reflect.StructField) string {
	if s.same("a", "A") {
		return strings.ToLower(s.nameOf(sf))
	}
	return s.nameOf(sf)
}
