package gcfg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// IsYAML reports whether the file is to be decoded by DecodeYAML: whether anything but a [section] stands first in it.
func IsYAML(data []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != ';' {
			return line[0] != '['
		}
	}
	return true
}

// List are words, in INI in one line with commas between them, in YAML a list or such a line. Blanks around words and empty
// words are left out.
type List []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *List) UnmarshalText(text []byte) error {
	by := ","
	if bytes.ContainsRune(text, '\n') { // each element of a list of YAML ends with it
		by = "\n"
	}
	*l = nil
	for word := range strings.SplitSeq(string(text), by) {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}

// Pairs are words by words, in INI an object of JSON, in YAML a map.
type Pairs map[string]string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Pairs) UnmarshalText(text []byte) error {
	var all map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		return errors.New(`it is no object of JSON with words in it, such as {"a": "b"}`)
	}
	*p = all
	return nil
}

// scanYAML reads the file's entries. What is written in another shape than its section has becomes an error.
func scanYAML(data []byte, known sections) ([]entry, []complaint) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, []complaint{yamlComplaint(err)}
	}
	s := yamlScan{known: known}
	if len(doc.Content) > 0 {
		s.document(doc.Content[0])
	}
	return s.entries, s.complaints
}

// yamlComplaint has the line of the library's message, of which the rest may show values.
func yamlComplaint(err error) complaint {
	c := complaint{line: 1, what: "it is not YAML; look at indents, colons and quotes up to this line"}
	if _, rest, ok := strings.Cut(err.Error(), "line "); ok {
		_, _ = fmt.Sscanf(rest, "%d", &c.line) // else the first
	}
	return c
}

type yamlScan struct {
	known      sections
	entries    []entry
	complaints []complaint
}

// complain notes that a value has another shape than it should.
func (s *yamlScan) complain(n *yaml.Node, format string, args ...any) {
	s.complaints = append(s.complaints, complaint{n.Line, fmt.Sprintf(format, args...)})
}

func (s *yamlScan) document(n *yaml.Node) {
	if n = behind(n); n.Kind != yaml.MappingNode {
		if !null(n) {
			s.complain(n, "the file is no YAML map of sections")
		}
		return
	}
	for key, value := range pairs(n) {
		name := key.Value
		if !s.isNamed(name) {
			s.entries = append(s.entries, entry{line: key.Line, section: name})
		}
		switch {
		case null(value):
		case value.Kind != yaml.MappingNode:
			s.complain(value, "%s is a section; its keys stand below it", name)
		case s.isNamed(name):
			s.names(name, value)
		default:
			s.keys(name, "", value)
		}
	}
}

// isNamed reports whether a section has names below it.
func (s *yamlScan) isNamed(section string) bool {
	known, ok := s.known.find(section)
	return ok && known.named()
}

func (s *yamlScan) names(section string, n *yaml.Node) {
	for key, value := range pairs(n) {
		s.entries = append(s.entries, entry{line: key.Line, section: section, sub: key.Value})
		if value.Kind == yaml.MappingNode {
			s.keys(section, key.Value, value)
		} else if !null(value) {
			s.complain(value, "%s.%s is a section; its keys stand below it", section, key.Value)
		}
	}
}

func (s *yamlScan) keys(section, sub string, n *yaml.Node) {
	for key, value := range pairs(n) {
		if null(value) {
			continue
		}
		text, err := textOf(value)
		if err != nil {
			s.complain(key, "%s.%s: %v", yamlSyntax.header(section, sub), key.Value, err)
			continue
		}
		s.entries = append(s.entries, entry{line: key.Line, section: section, sub: sub, key: key.Value, value: text, kind: value.Kind})
	}
}

// textOf is a value as one text, as List and Pairs read theirs.
func textOf(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		var b strings.Builder
		for _, e := range n.Content {
			if e = behind(e); e.Kind != yaml.ScalarNode || strings.ContainsRune(e.Value, '\n') {
				return "", errors.New("an element of the list is no word")
			}
			b.WriteString(e.Value + "\n")
		}
		return b.String(), nil
	default:
		all := map[string]string{}
		for key, value := range pairs(n) {
			if value.Kind != yaml.ScalarNode {
				return "", errors.New("a value of the map is no word")
			}
			all[key.Value] = value.Value
		}
		text, err := json.Marshal(all)
		return string(text), err
	}
}

// pairs are the keys and values of a map.
func pairs(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(behind(n.Content[i]), behind(n.Content[i+1])) {
				return
			}
		}
	}
}

// behind is what an alias stands for.
func behind(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
