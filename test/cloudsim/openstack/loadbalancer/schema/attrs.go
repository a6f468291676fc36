package loadbalancer

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

// lbAttr is one attribute of a kind of object and what Octavia takes for it.
type lbAttr struct {
	name  string
	typ   lbType
	modes string // "c" may be created, "u" updated, "!" required at creation
	// min and max bound numbers when max is not 0.
	min, max int
	// values are those of an enumeration.
	values []string
}

type lbType int

const (
	lbAny lbType = iota
	lbText
	lbInt
	lbBool
	lbUUID
	lbIP
	lbEnum
	lbTags
	lbCIDRs
	lbPath
	lbCodes
)

const (
	maxTimeout = 2073600000
	maxNumber  = 1<<31 - 1
)

var statusCodes = regexp.MustCompile(`^(\d{3}(\s*,\s*\d{3})*)$|^(\d{3}-\d{3})$`)

// clientFault is a refusal in Octavia's shape.
func clientFault(status int, format string, args ...any) *core.Error {
	return core.Errorf(status, "Client", format, args...)
}

func validationFault(format string, args ...any) *core.Error {
	return clientFault(http.StatusBadRequest, "Validation failure: "+format, args...)
}

// unsupported is the refusal of the ovn driver.
func unsupported(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusNotImplemented, "Server", "Provider 'ovn' does not support a requested option: "+format, args...)
}

// checkLB validates an object of a body; argument is its place in the body as messages name it.
func checkLB(attrs []lbAttr, argument string, in dialect.Fields, create bool) error {
	allowed := func(a lbAttr) bool {
		return create && strings.Contains(a.modes, "c") || !create && strings.Contains(a.modes, "u")
	}
	for _, name := range sortedKeys(in) {
		if !slices.ContainsFunc(attrs, func(a lbAttr) bool { return a.name == name && allowed(a) }) {
			return clientFault(http.StatusBadRequest, "Unknown attribute for argument %s: %s", argument, name)
		}
	}
	for _, a := range attrs {
		raw, given := in[a.name]
		if given && string(raw) != "null" {
			if reason := a.reason(raw); reason != "" {
				return clientFault(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: '%s'. %s", a.name, pythonText(raw), reason)
			}
			continue
		}
		if create && strings.Contains(a.modes, "!") {
			return clientFault(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: 'None'. Mandatory field missing.", a.name)
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
func (a lbAttr) reason(raw json.RawMessage) string {
	v := dialect.Plain(raw)
	switch a.typ {
	case lbText:
		if len(v) > 255 {
			return "Value should have a maximum character requirement of 255"
		}
		return wrongType(raw, new(string))
	case lbInt:
		return a.numberReason(v)
	case lbBool:
		if _, is := dialect.ParseBool(v); !is {
			return "Value not an boolean: " + v
		}
	case lbUUID:
		if !dialect.IsUUID(v) {
			return "Value should be UUID format"
		}
	case lbIP:
		if _, err := netip.ParseAddr(v); err != nil {
			return "Value should be IPv4 or IPv6 format"
		}
	case lbEnum:
		if !slices.Contains(a.values, v) {
			return "Value should be one of: " + strings.Join(a.values, ", ")
		}
	case lbTags:
		if json.Unmarshal(raw, new([]string)) != nil {
			return "Value not a valid list: " + v
		}
	case lbCIDRs:
		return cidrsReason(raw)
	case lbPath:
		if !strings.HasPrefix(v, "/") {
			return "Value must be a valid URL Path string"
		}
	case lbCodes:
		if !statusCodes.MatchString(v) {
			return "Value should match the pattern " + statusCodes.String()
		}
	}
	return ""
}

func wrongType(raw json.RawMessage, into any) string {
	if json.Unmarshal(raw, into) != nil {
		return "Wrong type. Expected '<class 'str'>', got '" + pythonText(raw) + "'"
	}
	return ""
}

func (a lbAttr) numberReason(v string) string {
	n, err := strconv.Atoi(v)
	switch {
	case err != nil:
		return "unable to convert to int. Error: invalid literal for int() with base 10: '" + v + "'"
	case n < a.min:
		return "Value should be greater or equal to " + strconv.Itoa(a.min)
	case n > a.max:
		return "Value should be lower or equal to " + strconv.Itoa(a.max)
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

// pythonText shows a value as Python's str would; enough for strings, numbers and lists of strings.
func pythonText(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i, v := range list {
			list[i] = "'" + v + "'"
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return dialect.Plain(raw)
}

// lbBody reads the object under a key of the request's body.
func lbBody(c *core.Call, key string) (dialect.Fields, error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, clientFault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	raw, is := doc[key]
	if !is {
		return nil, core.Errorf(http.StatusInternalServerError, "Server", "'UnsetType' object has no attribute 'project_id'")
	}
	var in dialect.Fields
	if json.Unmarshal(raw, &in) != nil {
		return nil, clientFault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	return in, nil
}

// describe sets what all objects have from a body.
func (e *lbEntity) describe(in dialect.Fields) {
	if in.Has("name") {
		e.name = in.Text("name")
	}
	if in.Has("description") {
		e.description = in.Text("description")
	}
	e.adminUp = in.Boolean("admin_state_up", e.adminUp)
	if in.Has("tags") {
		var tags []string
		if json.Unmarshal(in["tags"], &tags) == nil {
			e.tags = tags
		}
	}
}

// octaviaError is Octavia's error body.
func octaviaError(_ *core.Call, e *core.Error) (string, any) {
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
