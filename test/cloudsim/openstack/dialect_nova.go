package openstack

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// faultNames are the names of Nova's and Cinder's error bodies by status.
var faultNames = map[int]string{
	400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest",
	413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable",
}

// novaError makes Nova's and Cinder's error bodies, whose content types differ.
func novaError(contentType string) func(*call, *apiError) (string, any) {
	return func(_ *call, e *apiError) (string, any) {
		name := faultNames[e.status]
		if name == "" {
			name = "computeFault"
		}
		return contentType, object{name: object{"code": e.status, "message": e.message}}
	}
}

// badInput is a 400 of Nova or Cinder.
func badInput(format string, args ...any) *apiError {
	return errorf(http.StatusBadRequest, "", format, args...)
}

func malformedVersion(v string) *apiError {
	return errorf(http.StatusBadRequest, "", "API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", v)
}

func versionOutOfRange(v, low, high string) *apiError {
	return errorf(http.StatusNotAcceptable, "", "Version %s is not supported by the API. Minimum is %s and maximum is %s.", v, low, high)
}

// nextLink is the link to the next page: the query's last values, sorted, then the marker.
func nextLink(c *call, marker string) []object {
	q := url.Values{}
	for k, values := range c.query {
		if k != "marker" {
			q.Set(k, values[len(values)-1])
		}
	}
	text := q.Encode()
	if text != "" {
		text += "&"
	}
	return []object{{"rel": "next", "href": c.self() + "?" + text + "marker=" + url.QueryEscape(marker)}}
}

func allTenants(c *call) bool {
	v := strings.ToLower(c.query.Get("all_tenants"))
	return c.query.Has("all_tenants") && v != "0" && v != "false"
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
