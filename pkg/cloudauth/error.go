package cloudauth

import (
	"fmt"
	"strings"
)

// Reason says what kind of failure an Error is.
type Reason int

// The reasons of an Error.
const (
	// Failed is what is none of the others, such as a 5xx of the cloud.
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

// Error is a failure to authenticate, or of a call to a cloud.
type Error struct {
	Reason Reason
	// Text is one line, says what to do, and has nothing secret in it.
	Text string
	// Cause is what is behind it, or nil.
	Cause error
}

// NewError returns an Error of one line.
func NewError(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Text: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns what is behind it, or nil.
func (e *Error) Unwrap() error { return e.Cause }
