package cloud

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind says what an error of a cloud means to its caller. The zero value is KindUnknown,
// which is never treated as anything better than "try again later".
type Kind int

// The kinds of errors. Each cloud's errors.go maps its SDK's errors to them.
const (
	// KindUnknown is everything not known to be one of the others: bodies that do not parse, a
	// 404 that is not the service's own.
	KindUnknown Kind = iota
	// KindNotFound is the cloud's own word that the object does not exist.
	KindNotFound
	// KindThrottled is a refusal for too many requests or too little quota of requests.
	KindThrottled
	// KindDenied is a refusal for lack of a valid identity or of permission.
	KindDenied
	// KindUnsupported is a wish that this cloud cannot fulfill; retrying is of no use until the wish changes.
	KindUnsupported
	// KindInvalid is a wish or a configuration that contradicts itself or the cloud's rules;
	// retrying is of no use until it changes.
	KindInvalid
	// KindConflict is that something is somebody else's: it is left alone until they let go of it.
	KindConflict
	// KindRetryAfter is work accepted by the cloud but not done yet: look again after RetryAfter.
	KindRetryAfter
	// KindUnavailable is an outage: nobody answered, or not as the service would (network errors,
	// 5xx). It is tried again, and never proves anything.
	KindUnavailable
	// KindStale is a refusal because the object has changed since it was read, or is being changed:
	// it is read again, and the work goes on.
	KindStale
	// KindQuota is a limit of the account, or an address range that is full: told at once and tried
	// again seldom, as somebody has to make room.
	KindQuota
	// KindFailed is an object that is broken in the cloud: told at once and tried again seldom.
	KindFailed
)

var kindNames = [...]string{"Unknown", "NotFound", "Throttled", "Denied", "Unsupported", "Invalid", "Conflict", "RetryAfter",
	"Unavailable", "Stale", "Quota", "Failed"}

// String returns the kind's name as metrics and logs use it.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "Unknown"
	}
	return kindNames[k]
}

// Error is an error of a cloud with its kind. Err must hold no secret and no unbounded
// remote body.
type Error struct {
	// Kind is what the error means.
	Kind Kind
	// Op is what was tried, e.g. "get server 1234".
	Op string
	// RetryAfter is the wait the cloud asked for; zero when it asked for none.
	RetryAfter time.Duration
	// Progress says, with KindRetryAfter, that the call has changed something: what makes none for
	// long is looked at ever more rarely.
	Progress bool
	// Scope is, with KindNotFound, where the object was not found; see Instance.Scope.
	Scope string
	// Ended says, with KindNotFound, that the cloud still shows the object, as one that is gone for good: its reads
	// do not lag behind, see Provider.Newborn.
	Ended bool
	// RequestID is the cloud's own name of the request that failed, for its operators. It is not in
	// the text, which would be another one each time.
	RequestID string
	// Err is the cause; required.
	Err error
}

// Error implements error: "<op>: <cause>".
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error of the kind with a formatted cause; %w wraps.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the outermost *Error in err's chain, KindUnknown when there
// is none. Joined errors (errors.Join) have no kind of their own: KindUnknown, so that one
// NotFound among other failures is never taken for NotFound.
func KindOf(err error) Kind {
	for err != nil {
		if e, ok := err.(*Error); ok { //nolint:errorlint // errors.As would look into joined errors
			return e.Kind
		}
		err = errors.Unwrap(err)
	}
	return KindUnknown
}

// IsNotFound is KindOf(err) == KindNotFound.
func IsNotFound(err error) bool { return KindOf(err) == KindNotFound }

// IgnoreNotFound is nil for an error of KindNotFound, and err otherwise.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// IsUnavailable is KindOf(err) == KindUnavailable.
func IsUnavailable(err error) bool { return KindOf(err) == KindUnavailable }

// IsStale is KindOf(err) == KindStale.
func IsStale(err error) bool { return KindOf(err) == KindStale }

// RetryAfter returns the wait that the cloud asked for, zero when none.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// RequestIDOf returns the cloud's own name of the request that failed, "" when that is not known.
func RequestIDOf(err error) string {
	for err != nil {
		if e, ok := err.(*Error); ok && e.RequestID != "" { //nolint:errorlint // as KindOf
			return e.RequestID
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// HasProgress reports whether the call that err is of has changed something.
func HasProgress(err error) bool {
	for err != nil {
		if e, ok := err.(*Error); ok && e.Progress { //nolint:errorlint // as KindOf
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// ScopeOf returns where an object was not found, "" when that is not known.
func ScopeOf(err error) string {
	for err != nil {
		if e, ok := err.(*Error); ok && e.Scope != "" { //nolint:errorlint // as KindOf
			return e.Scope
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// IsEnded reports whether an object is not found because the cloud says that it is gone for good.
func IsEnded(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*Error); ok && e.Ended { //nolint:errorlint // as KindOf
			return true
		}
	}
	return false
}

// AnnotationPath is where an annotation of an object stands, as a client is told of it.
func AnnotationPath(name string) *field.Path {
	return field.NewPath("metadata", "annotations").Key(name)
}

// Refuse returns an error of kind that names all problems, each with its field, its value and
// what is allowed; nil when there are none. op is Error.Op.
func Refuse(kind Kind, op string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return &Error{Kind: kind, Op: op, Err: errors.Join(errs...)}
}
