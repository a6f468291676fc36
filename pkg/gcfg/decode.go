package gcfg

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// Decode decodes a file in gcfg syntax (cloud.conf) into the struct that into points to: its fields
// are sections, structs or, for [Section "name"], map[string]*struct, which takes [Section] as
// well, as "", if the field is tagged unnamed:"true"; their fields are
// keys, named by the tag gcfg:"name" or else by the field's name. Names are not
// case-sensitive. A slice collects repeated keys; of other repeated keys the last counts. A type
// with a method Doubt(value string) string may say what is doubtful of a value that it took.
//
// What cannot be read or stored is an error; all errors of the file come at once, joined,
// each with file, line, section, key and reason, and none with the value of a secret.
// Unknown sections and keys are warnings with the nearest known name, because existing
// cloud controllers tolerate them. The warnings come with an error as well.
func Decode(file string, data []byte, into any) (warnings []string, err error) {
	return decode(decoder{file: file, syntax: iniSyntax, sections: sectionsOf(into, iniSyntax)}, scanGCFG, data)
}

// DecodeYAML is Decode for the same file written as YAML: sections are keys of the document, [Section "name"] is a key below
// that of its section, and names, which are case-sensitive there, come from the tag yaml:"name" in place of gcfg's. Only a List
// may be a list and only Pairs a map. Null is a key that is not there.
func DecodeYAML(file string, data []byte, into any) (warnings []string, err error) {
	d := decoder{file: file, syntax: yamlSyntax, sections: sectionsOf(into, yamlSyntax)}
	return decode(d, func(data []byte) ([]entry, []complaint) { return scanYAML(data, d.sections) }, data)
}

// DecodePart is Decode for a program that reads only some of the file's sections: other
// sections are not warned about, unless their name looks like a typing error of one that
// is read.
func DecodePart(file string, data []byte, into any) (warnings []string, err error) {
	return decode(decoder{file: file, syntax: iniSyntax, sections: sectionsOf(into, iniSyntax), part: true}, scanGCFG, data)
}

func decode(d decoder, scan func([]byte) ([]entry, []complaint), data []byte) ([]string, error) {
	entries, complaints := scan(bytes.TrimPrefix(data, []byte("\ufeff")))
	d.lines, d.reported = map[string]int{}, map[string]bool{}
	for _, e := range entries {
		if err := d.store(e); err != nil {
			complaints = append(complaints, complaint{e.line, d.where(e) + ": " + err.Error()})
		}
	}
	slices.SortStableFunc(complaints, func(a, b complaint) int { return cmp.Compare(a.line, b.line) })
	var errs []error
	for _, c := range complaints {
		errs = append(errs, fmt.Errorf("%s: %w", d.file, c))
	}
	return d.warnings, errors.Join(errs...)
}

type decoder struct {
	file     string
	syntax   syntax
	part     bool
	sections sections
	lines    map[string]int  // where each single-valued key was seen before
	reported map[string]bool // unknown sections that were warned about
	warnings []string
}

// store puts one entry where it belongs.
func (d *decoder) store(e entry) error {
	sec, ok := d.sections.find(e.section)
	if !ok || !sec.fits(e.sub) {
		d.unknownSection(e, sec, ok)
		return nil
	}
	target := sec.target(e.sub)
	if e.key == "" {
		return nil
	}
	f, ok := sec.find(e.key)
	if !ok {
		d.unknownKey(e, sec)
		return nil
	}
	id := strings.ToLower(e.section) + "\x00" + e.sub + "\x00" + f.name
	if before := d.lines[id]; before != 0 && !f.repeatable() {
		d.warn(e.line, "%s is given again (first in line %d); the last one counts", d.where(e), before)
	}
	d.lines[id] = e.line
	if e.cut {
		d.warn(e.line, "the value of %s ends where a comment starts; if # or ; is part of it, put it in double quotes", d.where(e))
	}
	if doubt := f.doubt(target, e.value); doubt != "" && !e.blank {
		d.warn(e.line, "%s: %q: %s", d.where(e), e.value, doubt)
	}
	if err := f.takes(e.kind); err != nil {
		return err
	}
	return f.set(target, e.value, e.blank)
}

func (d *decoder) unknownSection(e entry, sec *section, exists bool) {
	id := strings.ToLower(e.section) + "\x00" + e.sub
	if d.reported[id] {
		return
	}
	d.reported[id] = true
	head := d.syntax.header(e.section, e.sub)
	switch {
	case exists && sec.named():
		d.warn(e.line, "section %s has no name; write %s; it is ignored", head, d.syntax.header(sec.name, "name"))
	case exists:
		d.warn(e.line, "section %s takes no name; write %s; it is ignored", head, d.syntax.header(sec.name, ""))
	default:
		near := nearest.Of(e.section, d.sections.names())
		if near != "" {
			d.warn(e.line, "unknown section %s; did you mean %s? it is ignored", head, d.syntax.header(near, ""))
		} else if !d.part {
			d.warn(e.line, "unknown section %s; it is ignored (known: %s)", head, strings.Join(d.sections.names(), ", "))
		}
	}
}

// unknownKey tells of a key. A word alone that is like no key is not repeated, because it
// may be the rest of a password.
func (d *decoder) unknownKey(e entry, sec *section) {
	suggestion := d.suggestKey(sec, e.key)
	if e.blank && suggestion == "" {
		d.warn(e.line, "no known key of %s, and without a value; it is ignored", d.syntax.header(e.section, e.sub))
		return
	}
	d.warn(e.line, "unknown key %s%s; it is ignored", d.where(e), suggestion)
}

// suggestKey says which key was probably meant: one of another section by exactly this name,
// else the nearest name of this section.
func (d *decoder) suggestKey(sec *section, key string) string {
	for _, other := range d.sections {
		if _, ok := other.find(key); ok {
			return "; it belongs in " + d.syntax.header(other.name, "")
		}
	}
	if near := nearest.Of(key, sec.keys()); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

func (d *decoder) warn(line int, format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf("%s: line %d: ", d.file, line)+fmt.Sprintf(format, args...))
}

// where is how people call the entry.
func (d *decoder) where(e entry) string {
	if e.key == "" {
		return d.syntax.header(e.section, e.sub)
	}
	return d.syntax.header(e.section, e.sub) + d.syntax.between + e.key
}
