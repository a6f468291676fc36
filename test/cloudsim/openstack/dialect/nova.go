package openstack

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

// novaError makes Nova's and Cinder's error bodies, whose content types differ.
func novaError(contentType string) func(*core.Call, *core.Error) (string, any) {
	return func(_ *core.Call, e *core.Error) (string, any) {
		name := faultNames[e.Status]
		if name == "" {
			name = "computeFault"
		}
		return contentType, core.Object{name: core.Object{"code": e.Status, "message": e.Message}}
	}
}

// badInput is a 400 of Nova or Cinder.
func badInput(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusBadRequest, "", format, args...)
}

func malformedVersion(v string) *core.Error {
	return core.Errorf(http.StatusBadRequest, "", "API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", v)
}

func versionOutOfRange(v, low, high string) *core.Error {
	return core.Errorf(http.StatusNotAcceptable, "", "Version %s is not supported by the API. Minimum is %s and maximum is %s.", v, low, high)
}

// nextLink is the link to the next page: the query's last values, sorted, then the marker.
func nextLink(c *core.Call, marker string) []core.Object {
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

func allTenants(c *core.Call) bool {
	v := strings.ToLower(c.Query.Get("all_tenants"))
	return c.Query.Has("all_tenants") && v != "0" && v != "false"
}

func parseDate(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04:05", text)
	}
	return at, err
}

// novaTime is how Nova and Cinder write times.
const novaTime = "2006-01-02T15:04:05.000000"

func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(novaTime)
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// setText changes to where the request has a value.
func setText(to, value *string) {
	if value != nil {
		*to = *value
	}
}
