package azure

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Reason says what kind of failure an Error is.
type Reason int

// The reasons of an Error.
const (
	// Failed is what is none of the others, such as a 5xx of Azure.
	Failed Reason = iota
	// Rejected is a refusal: trying again does not help until credentials or rights change.
	Rejected
	// Unreachable is a service that cannot be spoken to, certificates included.
	Unreachable
	// Throttled is a refusal for too many requests.
	Throttled
	// NoCredentials is that the machine has no identity.
	NoCredentials
	// Misconfigured is a configuration that cannot work.
	Misconfigured
)

// Error is a failure to authenticate. Its text is one line and says what to do.
type Error struct {
	Reason Reason

	text  string
	cause error
}

// NewError returns an Error of one line.
func NewError(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, text: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
}

// misconfigured makes an *Error of all the mistakes, on one line.
func misconfigured(err error) error {
	return &Error{Reason: Misconfigured, text: "Azure credentials: " + strings.ReplaceAll(err.Error(), "\n", "; "), cause: err}
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns what it was made of, or nil.
func (e *Error) Unwrap() error { return e.cause }

// explain makes an *Error of what kept a request from being answered.
func explain(r Request, err error) error {
	where := r.Where
	if u, parseErr := url.Parse(r.URL); parseErr == nil && !strings.Contains(where, u.Host) {
		where += " at " + u.Host
	}
	e := &Error{Reason: Unreachable, cause: err, text: wire.Explain(where, err, "check the network, private endpoints and proxy")}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		e.Reason = Failed
	case errors.Is(err, wire.ErrUnencrypted):
		e.Reason = Misconfigured
	}
	return e
}

// Refusal makes an *Error of an answer that is none of the good ones. said is what it says, fit for
// an error, and hint what to do if it is a refusal.
func (r *Response) Refusal(where, who, said, hint string) *Error {
	switch {
	case r.Status == 429:
		return NewError(Throttled, "%s asks to slow down (%s); it is asked again later", where, said)
	case r.Status >= 500:
		return NewError(Failed, "%s does not work (%d %s); it is asked again later", where, r.Status, said)
	case r.Status >= 300 && r.Status < 400:
		return NewError(Failed, "%s redirects to another address (%d), which is not followed; is a proxy or another service in between?", where, r.Status)
	}
	return NewError(Rejected, "%s refuses %s (%d %s); %s", where, who, r.Status, said, hint)
}
