package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

const maxBody = 4 << 20

// Request is a line of the request log. Service is "imds", "entra" or "acr", Action the path (of Entra ID
// without the tenant), and Access the client id that it names.
type Request = cloudsim.Request

// Fault makes matching requests go wrong. Its Code is an AADSTS number for Entra ID.
type Fault = cloudsim.Fault

type reply = cloudsim.Reply

// call is a request being answered.
type call struct {
	r       *http.Request
	host    string
	form    url.Values
	service string
	tenant  string // of Entra ID's
	run     func(*Sim, *call) (*reply, error)
}

// apiError is an error that Azure answers with.
type apiError struct {
	status        int
	code, message string
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

func errorf(status int, code, format string, args ...any) error {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// answer reads one request and finds what answers it.
func (s *Sim) answer(w http.ResponseWriter, r *http.Request, host string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c := &call{r: r, host: host}
	c.form, err = url.ParseQuery(string(body))
	entry := Request{Host: host, Action: s.route(c), Access: c.form.Get("client_id"), UserAgent: r.UserAgent()}
	if entry.Access == "" {
		entry.Access = r.URL.Query().Get("client_id")
	}
	entry.Service = c.service
	failed := func(status int, code, message string) *reply {
		return c.errorReply(&apiError{status: status, code: code, message: message})
	}
	s.Answer(w, r, entry, func() *reply {
		if c.run == nil || err != nil {
			return failed(http.StatusNotFound, "", "not found")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		out, err := c.run(s, c)
		if err != nil {
			return c.errorReply(err)
		}
		return out
	}, failed)
}

// route finds service and handler, and returns the action.
func (s *Sim) route(c *call) string {
	path := c.r.URL.Path
	_, entra := authorities[c.host]
	post := c.r.Method == http.MethodPost
	switch {
	case c.host == "":
		c.service = "imds"
		if path == "/metadata/identity/oauth2/token" && !post {
			c.run = (*Sim).metadataToken
		}
	case entra:
		c.service = "entra"
		tenant, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		c.tenant, path = tenant, "/"+rest
		switch {
		case path == "/oauth2/v2.0/token" && post:
			c.run = (*Sim).entraToken
		case path == "/discovery/instance" && tenant == "common":
			c.run = (*Sim).discovery
		case path == "/v2.0/.well-known/openid-configuration":
			c.run = (*Sim).openID
		}
	default:
		c.service = "acr"
		switch {
		case path == "/v2/" && !post:
			c.run = (*Sim).registryRoot
		case path == "/oauth2/exchange" && post:
			c.run = (*Sim).exchange
		case path == "/oauth2/token":
			c.run = (*Sim).registryToken
		}
	}
	return path
}

// errorReply gives an error the shape that the call's service uses.
func (c *call) errorReply(err error) *reply {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{status: http.StatusInternalServerError, code: "InternalServerError", message: err.Error()}
	}
	if e.status == 0 {
		e.status = http.StatusBadRequest
	}
	switch c.service {
	case "imds":
		return jsonReply(e.status, map[string]string{"error": e.code, "error_description": e.message})
	case "acr":
		return jsonReply(e.status, map[string]any{"errors": []map[string]any{{"code": e.code, "message": e.message + " CorrelationId: " + newGUID(), "detail": nil}}})
	}
	kind := "invalid_client"
	number, err := strconv.Atoi(e.code)
	switch {
	case err != nil:
		kind = e.code
	case number == 90002 || number == 700024 || number == 700027:
		kind = "invalid_request"
	case number == 700016:
		kind = "unauthorized_client"
	case number == 500011:
		kind = "invalid_resource"
	}
	trace, correlation, at := newGUID(), newGUID(), time.Now().UTC().Format("2006-01-02 15:04:05Z")
	return jsonReply(e.status, map[string]any{
		"error": kind, "error_codes": []int{number}, "timestamp": at, "trace_id": trace, "correlation_id": correlation,
		"error_description": fmt.Sprintf("AADSTS%s: %s Trace ID: %s Correlation ID: %s Timestamp: %s", e.code, e.message, trace, correlation, at),
		"error_uri":         fmt.Sprintf("https://%s/error?code=%s", c.host, e.code),
	})
}

func jsonReply(status int, body any) *reply {
	data, err := json.Marshal(body)
	if err != nil {
		return &reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
	}
	return &reply{Status: status, ContentType: "application/json; charset=utf-8", Body: data}
}
