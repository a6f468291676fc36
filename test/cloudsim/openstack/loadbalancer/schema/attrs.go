package schema

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Attr is one attribute of a kind of object and what Octavia takes for it.
type Attr struct {
	Name  string
	Type  attrType
	Modes string // "c" may be created, "u" updated, "!" required at creation
	// Min and max bound numbers when Max is not 0.
	Min, Max int
	// Values are those of an enumeration.
	Values []string
}

type attrType int

// The types of attributes.
const (
	Any attrType = iota
	Text
	Int
	Bool
	UUID
	IP
	Enum
	Tags
	CIDRs
	Path
	Codes
)

// Bounds of numbers.
const (
	MaxTimeout = 2073600000
	MaxNumber  = 1<<31 - 1
)

var statusCodes = regexp.MustCompile(`^(\d{3}(\s*,\s*\d{3})*)$|^(\d{3}-\d{3})$`)

// ClientFault is a refusal in Octavia's shape.
func ClientFault(status int, format string, args ...any) *core.Error {
	return core.Errorf(status, "Client", format, args...)
}

// ValidationFault refuses what is well-formed, but not allowed.
func ValidationFault(format string, args ...any) *core.Error {
	return ClientFault(http.StatusBadRequest, "Validation failure: "+format, args...)
}

// Unsupported is the refusal of the ovn driver.
func Unsupported(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusNotImplemented, "Server", "Provider 'ovn' does not support a requested option: "+format, args...)
}

// Check validates an object of a body; argument is its place in the body as messages name it.
func Check(attrs []Attr, argument string, in dialect.Fields, create bool) error {
	allowed := func(a Attr) bool {
		return create && strings.Contains(a.Modes, "c") || !create && strings.Contains(a.Modes, "u")
	}
	for _, name := range sortedKeys(in) {
		if !slices.ContainsFunc(attrs, func(a Attr) bool { return a.Name == name && allowed(a) }) {
			return ClientFault(http.StatusBadRequest, "Unknown attribute for argument %s: %s", argument, name)
		}
	}
	for _, a := range attrs {
		raw, given := in[a.Name]
		if given && string(raw) != "null" {
			if reason := a.reason(raw); reason != "" {
				return ClientFault(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: '%s'. %s", a.Name, PythonText(raw), reason)
			}
			continue
		}
		if create && strings.Contains(a.Modes, "!") {
			return ClientFault(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: 'None'. Mandatory field missing.", a.Name)
		}
	}
	return nil
}

func sortedKeys(in dialect.Fields) []string {
	keys := make([]string, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// reason says why a value is refused, "" when it is not.
func (a Attr) reason(raw json.RawMessage) string {
	v := dialect.Plain(raw)
	switch a.Type {
	case Text:
		if len(v) > 255 {
			return "Value should have a maximum character requirement of 255"
		}
		return wrongType(raw, new(string))
	case Int:
		return a.numberReason(v)
	case Bool:
		if _, is := dialect.ParseBool(v); !is {
			return "Value not an boolean: " + v
		}
	case UUID:
		if !dialect.IsUUID(v) {
			return "Value should be UUID format"
		}
	case IP:
		if _, err := netip.ParseAddr(v); err != nil {
			return "Value should be IPv4 or IPv6 format"
		}
	case Enum:
		if !slices.Contains(a.Values, v) {
			return "Value should be one of: " + strings.Join(a.Values, ", ")
		}
	case Tags:
		if json.Unmarshal(raw, new([]string)) != nil {
			return "Value not a valid list: " + v
		}
	case CIDRs:
		return cidrsReason(raw)
	case Path:
		if !strings.HasPrefix(v, "/") {
			return "Value must be a valid URL Path string"
		}
	case Codes:
		if !statusCodes.MatchString(v) {
			return "Value should match the pattern " + statusCodes.String()
		}
	}
	return ""
}

func wrongType(raw json.RawMessage, into any) string {
	if json.Unmarshal(raw, into) != nil {
		return "Wrong type. Expected '<class 'str'>', got '" + PythonText(raw) + "'"
	}
	return ""
}

func (a Attr) numberReason(v string) string {
	n, err := strconv.Atoi(v)
	switch {
	case err != nil:
		return "unable to convert to int. Error: invalid literal for int() with base 10: '" + v + "'"
	case n < a.Min:
		return "Value should be greater or equal to " + strconv.Itoa(a.Min)
	case n > a.Max:
		return "Value should be lower or equal to " + strconv.Itoa(a.Max)
	}
	return ""
}

func cidrsReason(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return "Value not a valid list: " + dialect.Plain(raw)
	}
	for _, v := range list {
		if _, err := netip.ParsePrefix(v); err != nil {
			return "Value should be IPv4 or IPv6 CIDR format"
		}
	}
	return ""
}

// PythonText shows a value as Python's str would; enough for strings, numbers and lists of strings.
func PythonText(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i, v := range list {
			list[i] = "'" + v + "'"
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return dialect.Plain(raw)
}

// Body reads the object under a key of the request's body.
func Body(c *core.Call, key string) (dialect.Fields, error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, ClientFault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	raw, is := doc[key]
	if !is {
		return nil, core.Errorf(http.StatusInternalServerError, "Server", "'UnsetType' object has no attribute 'project_id'")
	}
	var in dialect.Fields
	if json.Unmarshal(raw, &in) != nil {
		return nil, ClientFault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	return in, nil
}

// ErrorBody is Octavia's error body.
func ErrorBody(_ *core.Call, e *core.Error) (string, any) {
	if e.Kind == "" && e.Status == http.StatusNotFound {
		return "text/plain; charset=UTF-8", []byte("404 Not Found\n\nThe resource could not be found.\n\n   ")
	}
	fault := e.Kind
	if fault == "" {
		if fault = "Client"; e.Status >= 500 {
			fault = "Server"
		}
	}
	return "", core.Object{"faultcode": fault, "faultstring": e.Message, "debuginfo": nil}
}
