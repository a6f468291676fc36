package server

import "strings"

// traceHeader is the header of W3C Trace Context with which the API server, if it traces,
// says of which trace a request is part.
const traceHeader = "Traceparent"

// traceID returns the trace's ID in a value of traceHeader, "" if there is none.
func traceID(parent string) string {
	// version-trace-parent-flags, in lower case hexadecimal; later versions may append more.
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || (len(parent) > 55 && (parent[55] != '-' || parent[:2] == "00")) {
		return ""
	}
	version, trace, span, flags := parent[:2], parent[3:35], parent[36:52], parent[53:55]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	if version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	return trace
}
