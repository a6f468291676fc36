package dialect

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Fields is the validated body of a create or update.
type Fields map[string]json.RawMessage

// BadRequest is a 400 of Neutron.
func BadRequest(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusBadRequest, "HTTPBadRequest", format, args...)
}

// Has reports whether an attribute is there.
func (f Fields) Has(name string) bool { _, is := f[name]; return is }

// Null reports whether an attribute is null.
func (f Fields) Null(name string) bool { return string(f[name]) == "null" }

// Given reports whether an attribute is there and not null.
func (f Fields) Given(name string) bool { return f.Has(name) && !f.Null(name) }

// Text is a string attribute, "" when it is absent or null.
func (f Fields) Text(name string) string {
	var v string
	if json.Unmarshal(f[name], &v) != nil {
		return ""
	}
	return v
}

// Optional is a string attribute or nil.
func (f Fields) Optional(name string) *string {
	if !f.Given(name) {
		return nil
	}
	v := f.Text(name)
	return &v
}

// Boolean is a boolean attribute, def when it is absent.
func (f Fields) Boolean(name string, def bool) bool {
	if v, is := ParseBool(Plain(f[name])); is && f.Has(name) {
		return v
	}
	return def
}

// Number is an integer attribute, def when it is absent or null.
func (f Fields) Number(name string, def int) int {
	if n, err := strconv.Atoi(Plain(f[name])); err == nil && f.Has(name) {
		return n
	}
	return def
}

// Into decodes an attribute; absent and null leave v as it is.
func (f Fields) Into(name string, v any) error {
	raw, is := f[name]
	if !is || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return BadRequest("Invalid input for %s. Reason: '%s' has the wrong type.", name, Plain(raw))
	}
	return nil
}

// Object decodes an object, nil when it is absent or none.
func (f Fields) Object(name string) Fields {
	var out Fields
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

// Objects decodes a list of objects.
func (f Fields) Objects(name string) []Fields {
	var out []Fields
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

// IsUUID reports whether a value is an id with dashes.
func IsUUID(v string) bool { return len(v) == 36 && uuid.Validate(v) == nil }

// Plain is a JSON value as Python would format it: strings without quotes.
func Plain(raw json.RawMessage) string {
	var v string
	if json.Unmarshal(raw, &v) == nil {
		if string(raw) == "null" {
			return "None"
		}
		return v
	}
	return string(raw)
}

// ParseBool reads what both take for a boolean.
func ParseBool(v string) (value, is bool) {
	switch strings.ToLower(v) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}
