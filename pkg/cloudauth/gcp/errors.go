package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Reason says what kind of failure an Error is.
type Reason int

// The reasons of an Error.
const (
	// Failed is what is none of the others, such as a 5xx of Google.
	Failed Reason = iota
	// Rejected is a refusal: trying again does not help until credentials or policies change.
	Rejected
	// Unreachable is a service that cannot be spoken to, certificates included.
	Unreachable
	// Throttled is a refusal for too many requests.
	Throttled
	// NoCredentials is that no source has any.
	NoCredentials
	// Misconfigured is a configuration that cannot work.
	Misconfigured
)

// Error is a failure to authenticate. Its text is one line, says what to do, and has nothing
// secret in it.
type Error struct {
	Reason Reason

	text  string
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns what is behind it, or nil.
func (e *Error) Unwrap() error { return e.cause }

func errorf(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// misconfigured makes an *Error of all the mistakes, on one line.
func misconfigured(err error) error {
	return &Error{Reason: Misconfigured, text: strings.ReplaceAll(err.Error(), "\n", "; "), cause: err}
}

const checkNetwork = "check the network, firewall and proxy"

// unreachable explains why there is no answer.
func (r request) unreachable(err error) error {
	e := &Error{Reason: Unreachable, cause: err}
	next := checkNetwork
	if r.local {
		next = "check that it runs and what its address is"
	}
	if r.service == metadataServer {
		e.Reason, next = NoCredentials, noMetadata
	}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		e.Reason = Failed
	case errors.Is(err, wire.ErrUnencrypted):
		e.Reason = Misconfigured
	}
	e.text = wire.Explain(r.service+" at "+r.host(), err, next, r.secrets...)
	return e
}

// refusal is what the services say of one: OAuth's form, and that of Google's APIs.
type refusal struct {
	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
}

type apiRefusal struct {
	Message string `json:"message"`
	Status  string `json:"status"`
}

// parseRefusal returns the code and the message of an answer, as far as it has any.
func parseRefusal(body []byte) (code, message string) {
	var r refusal
	if json.Unmarshal(body, &r) != nil {
		return "", ""
	}
	var api apiRefusal
	if json.Unmarshal(r.Error, &code) == nil {
		return code, r.Description
	}
	if json.Unmarshal(r.Error, &api) == nil {
		return api.Status, api.Message
	}
	return "", ""
}

// refused explains an answer that is not a good one.
func (r request) refused(a answer) error {
	code, message := parseRefusal(a.body)
	said := code + ": " + message
	switch {
	case code == "" && message == "":
		said = http.StatusText(a.status)
		if kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); err == nil && kind == "text/plain" {
			said = string(a.body)
		}
	case code == "" || message == "":
		said = code + message
	}
	said = cloudauth.Excerpt(fmt.Sprintf("%d %s", a.status, said), 300, r.secrets...)
	where := r.name()
	switch {
	case a.status == http.StatusTooManyRequests:
		return errorf(Throttled, "%s asks to slow down (%s); it is asked again later", where, said)
	case a.status >= http.StatusInternalServerError:
		return errorf(Failed, "%s does not work (%s); it is asked again later", where, said)
	case a.status < http.StatusBadRequest:
		return errorf(Failed, "%s at %s answers %d, which is not followed; is a proxy or another service in between?", where, r.host(), a.status)
	}
	next := "check its configuration"
	if r.hint != nil {
		next = r.hint(a.status, code)
	}
	return errorf(Rejected, "%s refuses %s (%s); %s", where, r.who, said, next)
}

// noToken is a good answer that has none in it.
func (r request) noToken() error {
	return errorf(Failed, "%s at %s answers without a usable token; is a proxy or another service in between?", r.name(), r.host())
}
