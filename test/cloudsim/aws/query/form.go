package query

import (
	"net/url"
	"strconv"
	"strings"
)

// Form is a request's parameters, or one structure among them. A nil Form has none.
type Form struct {
	value  string
	fields map[string]*Form
}

// Parse reads parameters such as "Filter.1.Value.2".
func Parse(values url.Values) *Form {
	root := &Form{}
	for name, v := range values {
		at := root
		for part := range strings.SplitSeq(name, ".") {
			next := at.fields[part]
			if next == nil {
				next = &Form{}
				if at.fields == nil {
					at.fields = map[string]*Form{}
				}
				at.fields[part] = next
			}
			at = next
		}
		at.value = v[0]
	}
	return root
}

// Has reports whether a parameter was sent, empty or not.
func (f *Form) Has(name string) bool { return f.At(name) != nil }

// At is the structure of this name, nil if there is none of it.
func (f *Form) At(name string) *Form {
	if f == nil {
		return nil
	}
	return f.fields[name]
}

// Get is a parameter's value, "" if it was not sent.
func (f *Form) Get(name string) string {
	if at := f.At(name); at != nil {
		return at.value
	}
	return ""
}

// Int is a parameter as a number, or else when it was not sent.
func (f *Form) Int(name string, or int) (int, error) {
	text := f.Get(name)
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", text, name)
	}
	return n, nil
}

// Structs is a list of structures: "name.1.…", "name.2.…", or the same with "member" between.
func (f *Form) Structs(name string) []*Form {
	list := f.At(name)
	if member := list.At("member"); member != nil {
		list = member
	}
	var out []*Form
	for i := 1; list != nil; i++ {
		item := list.fields[strconv.Itoa(i)]
		if item == nil {
			break
		}
		out = append(out, item)
	}
	return out
}

// Strings is a list of texts.
func (f *Form) Strings(name string) []string {
	var out []string
	for _, item := range f.Structs(name) {
		out = append(out, item.value)
	}
	return out
}
