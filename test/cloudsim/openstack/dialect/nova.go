package dialect

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// faultNames are the names of Nova's and Cinder's error bodies by status.
var faultNames = map[int]string{
	400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest",
	413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable",
}

// NovaError makes Nova's and Cinder's error bodies, whose content types differ.
func NovaError(contentType string) func(*core.Call, *core.Error) (string, any) {
	return func(_ *core.Call, e *core.Error) (string, any) {
		name := faultNames[e.Status]
		if name == "" {
			name = "computeFault"
		}
		return contentType, core.Object{name: core.Object{"code": e.Status, "message": e.Message}}
	}
}

// BadInput is a 400 of Nova or Cinder.
func BadInput(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusBadRequest, "", format, args...)
}

// MalformedVersion refuses a microversion that is none.
func MalformedVersion(v string) *core.Error {
	return core.Errorf(http.StatusBadRequest, "", "API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", v)
}

// VersionOutOfRange refuses a microversion that is not offered.
func VersionOutOfRange(v, low, high string) *core.Error {
	return core.Errorf(http.StatusNotAcceptable, "", "Version %s is not supported by the API. Minimum is %s and maximum is %s.", v, low, high)
}

// NextLink is the link to the next page: the query's last values, sorted, then the marker.
func NextLink(c *core.Call, marker string) []core.Object {
	q := url.Values{}
	for k, values := range c.Query {
		if k != "marker" {
			q.Set(k, values[len(values)-1])
		}
	}
	text := q.Encode()
	if text != "" {
		text += "&"
	}
	return []core.Object{{"rel": "next", "href": c.Self() + "?" + text + "marker=" + url.QueryEscape(marker)}}
}

// AllTenants reports whether a query asks for the objects of all projects.
func AllTenants(c *core.Call) bool {
	v := strings.ToLower(c.Query.Get("all_tenants"))
	return c.Query.Has("all_tenants") && v != "0" && v != "false"
}

// ParseDate reads a time with or without its zone.
func ParseDate(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04:05", text)
	}
	return at, err
}

// NovaTime is how Nova and Cinder write times.
const NovaTime = "2006-01-02T15:04:05.000000"

// TimeOrNil is a time, or null for none.
func TimeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(NovaTime)
}

// NonNil is metadata, {} for none.
func NonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// SetText changes to where the request has a value.
func SetText(to, value *string) {
	if value != nil {
		*to = *value
	}
}
