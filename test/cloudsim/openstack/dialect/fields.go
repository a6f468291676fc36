package openstack

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// fields is the validated body of a create or update.
type fields map[string]json.RawMessage

func badRequest(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusBadRequest, "HTTPBadRequest", format, args...)
}

func (f fields) has(name string) bool { _, is := f[name]; return is }

func (f fields) null(name string) bool { return string(f[name]) == "null" }

// given reports whether an attribute is there and not null.
func (f fields) given(name string) bool { return f.has(name) && !f.null(name) }

// text is a string attribute, "" when it is absent or null.
func (f fields) text(name string) string {
	var v string
	if json.Unmarshal(f[name], &v) != nil {
		return ""
	}
	return v
}

// optional is a string attribute or nil.
func (f fields) optional(name string) *string {
	if !f.given(name) {
		return nil
	}
	v := f.text(name)
	return &v
}

// boolean is a boolean attribute, def when it is absent.
func (f fields) boolean(name string, def bool) bool {
	if v, is := parseBool(plain(f[name])); is && f.has(name) {
		return v
	}
	return def
}

// number is an integer attribute, def when it is absent or null.
func (f fields) number(name string, def int) int {
	if n, err := strconv.Atoi(plain(f[name])); err == nil && f.has(name) {
		return n
	}
	return def
}

// into decodes an attribute; absent and null leave v as it is.
func (f fields) into(name string, v any) error {
	raw, is := f[name]
	if !is || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return badRequest("Invalid input for %s. Reason: '%s' has the wrong type.", name, plain(raw))
	}
	return nil
}

// object decodes an object, nil when it is absent or none.
func (f fields) object(name string) fields {
	var out fields
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

// objects decodes a list of objects.
func (f fields) objects(name string) []fields {
	var out []fields
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

func isUUID(v string) bool { return len(v) == 36 && uuid.Validate(v) == nil }

// plain is a JSON value as Python would format it: strings without quotes.
func plain(raw json.RawMessage) string {
	var v string
	if json.Unmarshal(raw, &v) == nil {
		if string(raw) == "null" {
			return "None"
		}
		return v
	}
	return string(raw)
}

func parseBool(v string) (value, is bool) {
	switch strings.ToLower(v) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}
