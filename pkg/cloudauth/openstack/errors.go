package openstack

import (
	"errors"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Reason says what kind of failure an Error is.
type Reason int

// The reasons of an Error.
const (
	// Failed is what is none of the others, such as a 5xx of Keystone.
	Failed Reason = iota
	// Rejected is a refusal of the credentials: trying again does not help until they change.
	Rejected
	// Unreachable is a Keystone that cannot be spoken to, certificates included.
	Unreachable
	// Throttled is a refusal for too many requests.
	Throttled
	// NoEndpoint is a service that the catalog does not have where it is looked for.
	NoEndpoint
	// Misconfigured is a configuration that cannot work.
	Misconfigured
)

// Error is a failure to authenticate or to find a service. Its text is one line and says
// what to do. It wraps context errors and network errors, but never an HTTP answer of
// Keystone.
type Error struct {
	Reason Reason
	// RetryAfter is the wait that Keystone asked for; zero when it asked for none.
	RetryAfter time.Duration

	text  string
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause: an error of the network or of a context, or nil.
func (e *Error) Unwrap() error { return e.cause }

// AsError finds the *Error in err, nil when there is none. It also looks where errors.As
// cannot: into the failure of a re-authentication during a request (gophercloud).
func AsError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var re *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &re) && errors.As(re.ErrReauth, &own) {
		return own
	}
	return nil
}
