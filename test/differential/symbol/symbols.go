package symbol

import (
	"fmt"
	"regexp"
	"strings"
)

// Symbols stand for what differs between any two runs: identifiers and addresses. A symbol is
// written in braces.
type Symbols struct {
	values  map[string]string // of symbols
	symbols map[string]string // of values
	// net is the beginning of the addresses that the cloud gives, keys the address of its key manager.
	net, keys string
	found     *regexp.Regexp // what may have a symbol
}

// New returns none yet, but for {net}, the beginning of the cloud's IPv4 addresses, and {keys}, the
// address of its key manager; either may be empty. Beside UUIDs and addresses, what more (regular expressions) finds may have
// symbols.
func New(net, keys string, more ...string) *Symbols {
	return &Symbols{values: map[string]string{}, symbols: map[string]string{}, net: net, keys: keys,
		found: regexp.MustCompile(strings.Join(append(more, values), "|"))}
}

// Set makes {symbol} stand for value. A value keeps the first symbol it gets.
func (s *Symbols) Set(symbol, value string) {
	if value == "" {
		return
	}
	s.values[symbol] = value
	if _, is := s.symbols[value]; !is {
		s.symbols[value] = symbol
	}
}

// Value returns what a symbol stands for, "" for nothing.
func (s *Symbols) Value(symbol string) string { return s.values[symbol] }

// values are UUIDs, with their hyphens or without, and addresses.
const values = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|\b[0-9a-f]{31,32}\b|\d{1,3}(?:\.\d{1,3}){3}|\b[0-9a-f]{1,4}:[0-9a-f:]*:[0-9a-f:]*`

var (
	inBraces = regexp.MustCompile(`\{[A-Za-z0-9][^{},"]*\}`)
	uuid     = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
)

// Expand puts the values into a text with symbols.
func (s *Symbols) Expand(text string) (string, error) {
	var missing []string
	out := inBraces.ReplaceAllStringFunc(text, func(found string) string {
		symbol := found[1 : len(found)-1]
		switch {
		case symbol == "net" && s.net != "":
			return s.net
		case symbol == "keys" && s.keys != "":
			return s.keys
		}
		v, is := s.values[symbol]
		if !is {
			missing = append(missing, found)
		}
		return v
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("%s: nothing is known as %s", text, strings.Join(missing, ", "))
	}
	return out, nil
}

// Fold puts symbols for the values in a text. An identifier that is not known becomes {?}.
func (s *Symbols) Fold(text string) string {
	if s.keys != "" {
		text = strings.ReplaceAll(text, s.keys, "{keys}")
	}
	return s.found.ReplaceAllStringFunc(text, func(found string) string {
		if symbol, is := s.symbols[found]; is {
			return "{" + symbol + "}"
		}
		if uuid.MatchString(found) {
			return "{?}"
		}
		if s.net != "" && strings.HasPrefix(found, s.net+".") {
			return "{net}" + strings.TrimPrefix(found, s.net)
		}
		return found
	})
}

// FoldAll folds every text in a value decoded from JSON.
func (s *Symbols) FoldAll(v any) any {
	switch v := v.(type) {
	case string:
		return s.Fold(v)
	case []any:
		for i := range v {
			v[i] = s.FoldAll(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = s.FoldAll(v[k])
		}
	}
	return v
}

// ExpandAll expands every text in a value decoded from JSON; it makes a copy.
func (s *Symbols) ExpandAll(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return s.Expand(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			x, err := s.ExpandAll(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			x, err := s.ExpandAll(v[k])
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	}
	return v, nil
}

// Add makes a symbol stand for a new value; where it stands for another one already, a number is
// added to it. It returns the symbol that the value then has.
func (s *Symbols) Add(symbol, value string) string {
	if value == "" {
		return ""
	}
	if known, is := s.symbols[value]; is {
		return known
	}
	name := symbol
	for i := 2; s.values[name] != ""; i++ {
		name = fmt.Sprintf("%s#%d", symbol, i)
	}
	s.Set(name, value)
	return name
}

// Stripped is an identifier without its hyphens.
func Stripped(id string) string { return strings.ReplaceAll(id, "-", "") }

// In are the symbols in a text, without their braces.
func In(text string) []string {
	var out []string
	for _, symbol := range inBraces.FindAllString(text, -1) {
		out = append(out, strings.Trim(symbol, "{}"))
	}
	return out
}
