package azure

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
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

// explain makes an *Error of what kept a request from being answered. where says who should have.
func explain(where string, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	detail := err
	var u *url.Error
	if errors.As(err, &u) {
		detail = u.Err
		if parsed, parseErr := url.Parse(u.URL); parseErr == nil && parsed.Host != "" && !strings.Contains(where, parsed.Host) {
			where += " at " + parsed.Host
		}
	}
	e := &Error{Reason: Unreachable, cause: err}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		e.text = where + ": " + context.Canceled.Error()
	case errors.As(err, &unknown):
		e.text = where + " has a certificate that the system's CAs do not vouch for; add the CA of the proxy in between to the system's, or set SSL_CERT_FILE"
	case errors.As(err, &host):
		e.text = fmt.Sprintf("%s has a certificate for another name (%s); check DNS, private endpoints and the proxy", where, cloudauth.Excerpt(host.Error(), 200))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.text = where + " does not answer in time; check the network, private endpoints and proxy"
	default:
		e.text = fmt.Sprintf("%s cannot be reached (%s); check the network, private endpoints and proxy", where, cloudauth.Excerpt(detail.Error(), 200))
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
