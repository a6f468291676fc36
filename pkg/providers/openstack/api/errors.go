package api

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// WrapError turns an error of gophercloud into a *cloud.Error of the right kind for the
// operation op ("get server <id>"). An error that has a kind already keeps it; nil stays nil.
//
// The one dangerous kind is KindNotFound, see isObjectMissing.
func WrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *cloud.Error
	if errors.As(err, &known) {
		if sent, ok := err.(*url.Error); ok { //nolint:errorlint // only what net/http puts around the error of a request that was not sent
			err = sent.Err // without the URL
		}
		return &cloud.Error{Kind: cloud.KindOf(err), Op: op, RetryAfter: known.RetryAfter, Err: err}
	}
	if auth.AsError(err) != nil {
		return authError(op, err) // the token was refused and could not be renewed
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return answerError(op, &code)
	}
	var netErr *url.Error
	if errors.As(err, &netErr) {
		kind := cloud.KindUnavailable
		if errors.Is(err, context.Canceled) { // by us, which says nothing about the service
			kind = cloud.KindUnknown
		}
		// Without the URL's query, which may hold names; %w keeps context errors and timeouts.
		return &cloud.Error{Kind: kind, Op: op, Err: fmt.Errorf("%s %s: %w%s", strings.ToUpper(netErr.Op), withoutQuery(netErr.URL), netErr.Err, networkHint(netErr.Err))}
	}
	return &cloud.Error{Op: op, Err: err}
}

// authError is the error of an operation for which there is no token or no service client.
func authError(op string, err error) error {
	e := &cloud.Error{Op: op, Err: err}
	if a := auth.AsError(err); a != nil {
		e.RetryAfter, e.Err = a.RetryAfter, a // without what gophercloud put around it
		switch a.Reason {
		case auth.Rejected:
			e.Kind = cloud.KindDenied
		case auth.Throttled:
			e.Kind = cloud.KindThrottled
		case auth.NoEndpoint:
			e.Kind = cloud.KindUnsupported
		case auth.Misconfigured:
			e.Kind = cloud.KindInvalid
		case auth.Failed, auth.Unreachable:
			e.Kind = cloud.KindUnavailable
		}
	}
	return e
}

// answerError is the error for an answer with an unexpected status code.
func answerError(op string, code *gophercloud.ErrUnexpectedResponseCode) error {
	answer := parseAnswer(code.Body)
	kind := kindOf(code, answer)
	return &cloud.Error{
		Kind:       kind,
		Op:         op,
		RetryAfter: backoff.Asked(code.ResponseHeader, time.Now()),
		RequestID:  requestID(code.ResponseHeader),
		Err: fmt.Errorf("%d %s: %s (%s %s)%s", code.Actual, http.StatusText(code.Actual), answer.text,
			code.Method, withoutQuery(code.URL), answerHint(code.Actual, kind, answer.text)),
	}
}

// answerHint says what to do about an answer that is a matter of configuration, or of room.
func answerHint(status int, kind cloud.Kind, text string) string {
	if kind == cloud.KindQuota {
		return "; raise the project's quota or extend the range of addresses, or delete what is not used any more"
	}
	if strings.Contains(text, "Could not retrieve certificate") {
		// Octavia asks Keystone for a token with ours, which Keystone refuses for tokens of
		// application credentials (octavia/certificates/common/auth/barbican_acl.py).
		return "; if cloud.conf logs in with an application credential, use a user and password: Octavia cannot read Barbican on behalf of the former"
	}
	if status == http.StatusForbidden && strings.Contains(strings.ToLower(text), "policy") {
		return "; the user of [Global] in cloud.conf needs a role in its project that may do this"
	}
	return ""
}

// networkHint says what to do about a connection that failed for its certificates.
func networkHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "; ca-file in [Global] of cloud.conf has to hold the CA of this endpoint too"
	case errors.As(err, &name):
		return "; the catalog names this endpoint by a host that its certificate is not for: choose another os-endpoint-type, or have the cloud's operator correct it"
	case errors.As(err, &invalid):
		return "; check the clocks, and that the certificate is renewed"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; the catalog says https, but the endpoint does not speak TLS: choose another os-endpoint-type, or have the cloud's operator correct it"
	}
	return ""
}

// isThrottling reports whether the status is a refusal for too many requests: Nova's of old
// and Swift's middleware's, too.
func isThrottling(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge || status == 498
}

func kindOf(code *gophercloud.ErrUnexpectedResponseCode, answer remoteAnswer) cloud.Kind {
	switch {
	case code.Actual < http.StatusInternalServerError && isFull(answer):
		return cloud.KindQuota
	case isThrottling(code.Actual):
		return cloud.KindThrottled
	}
	switch code.Actual {
	case http.StatusNotFound, http.StatusGone:
		switch {
		case isObjectMissing(code.Method, code.URL, answer):
			return cloud.KindNotFound
		case answer.shape == shapeNeutron && code.Method != http.MethodGet && answer.neutronType != "HTTPNotFound":
			return cloud.KindInvalid // something that the request refers to is missing
		}
		return cloud.KindUnknown
	case http.StatusUnauthorized, http.StatusForbidden:
		return cloud.KindDenied
	case http.StatusConflict:
		if isOthers(answer) {
			return cloud.KindConflict
		}
		return cloud.KindStale
	case http.StatusPreconditionFailed, http.StatusLocked:
		return cloud.KindStale
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return cloud.KindInvalid
	case http.StatusNotImplemented, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return cloud.KindUnsupported
	}
	if code.Actual >= http.StatusInternalServerError {
		return cloud.KindUnavailable
	}
	return cloud.KindUnknown
}

// isFull reports whether a refusal is for lack of room: a quota, or no free address in a range.
// Nova, Octavia and Barbican say so with 403, Cinder with 413, Neutron with 409 or 400.
func isFull(answer remoteAnswer) bool {
	switch answer.neutronType {
	case "OverQuota", "IpAddressGenerationFailure", "ExternalIpAddressExhausted":
		return true
	case "":
		return quotaMet.MatchString(answer.text)
	}
	return false
}

var quotaMet = regexp.MustCompile(`(?i)quota (has been )?(met|reached|exceeded)|(volume|snapshot)limitexceeded`)

// isOthers reports whether a 409 is because something is used by others or by something else.
func isOthers(answer remoteAnswer) bool {
	return strings.Contains(answer.neutronType, "InUse") || strings.Contains(answer.neutronType, "AlreadyA") // …Allocated, …Associated
}

// withoutQuery is a URL's scheme, host and path.
func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "unparsable URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// requestID is by what the cloud's operators find a request in its logs.
func requestID(h http.Header) string { return h.Get("X-Openstack-Request-Id") }
