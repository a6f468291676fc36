package query

import (
	"slices"
	"strings"
)

// maxFilterValues is how many values the filters of one request have at most.
const maxFilterValues = 200

// Filters are a request's: an object passes when each has a value that matches one of the object's.
type Filters []filter

type filter struct {
	name   string
	values []string
}

// Filters are the parameter Filter.N.
func (f *Form) Filters() (Filters, error) {
	var out Filters
	n := 0
	for _, item := range f.Structs("Filter") {
		values := item.Strings("Value")
		if n += len(values); n > maxFilterValues {
			return nil, Errorf("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d",
				maxFilterValues)
		}
		out = append(out, filter{item.Get("Name"), values})
	}
	return out, nil
}

// Fields are by filter name what an object has. Names that end in ":" take their rest as an argument, as "tag:".
type Fields[T any] map[string]func(v T, argument string) []string

// Apply returns what passes all filters. A name that the fields lack is refused.
func Apply[T any](filters Filters, fields Fields[T], items []T) ([]T, error) {
	for _, f := range filters {
		get, argument := fields[f.name], ""
		if kind, rest, ok := strings.Cut(f.name, ":"); ok && get == nil {
			get, argument = fields[kind+":"], rest
		}
		if get == nil {
			return nil, Errorf("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
		var left []T
		for _, item := range items {
			if slices.ContainsFunc(get(item, argument), f.matches) {
				left = append(left, item)
			}
		}
		items = left
	}
	return items, nil
}

func (f *filter) matches(value string) bool {
	return slices.ContainsFunc(f.values, func(pattern string) bool { return glob(pattern, value) })
}

// glob matches with EC2's wildcards: "*" is any text, "?" at most one character, "\" takes the next one literally.
// Values are case-sensitive. The documentation says "zero or one character" of "?" for some operations, "one" for others.
func glob(pattern, text string) bool {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			for j := range len(text) + 1 {
				if glob(pattern[i+1:], text[j:]) {
					return true
				}
			}
			return false
		case '?':
			return text != "" && glob(pattern[i+1:], text[1:]) || glob(pattern[i+1:], text)
		default:
			if c == '\\' && i+1 < len(pattern) {
				i++
				c = pattern[i]
			}
			if text == "" || text[0] != c {
				return false
			}
			text = text[1:]
		}
	}
	return text == ""
}
