package api

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// WrapError turns an error of gophercloud into a *cloud.Error of the right kind for the
// operation op ("get server <id>"). An error that has a kind already keeps it; nil stays nil.
//
// The one dangerous kind is KindNotFound, see isObjectMissing.
func WrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*cloud.Error](err); ok {
		if sent, ok := err.(*url.Error); ok { //nolint:errorlint // only what net/http puts around the error of a request that was not sent
			err = sent.Err // without the URL
		}
		return &cloud.Error{Kind: cloud.KindOf(err), Op: op, RetryAfter: known.RetryAfter, Err: err}
	}
	if auth.AsError(err) != nil {
		return authError(op, err) // the token was refused and could not be renewed
	}
	if code, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return answerError(op, &code)
	}
	if netErr, ok := errors.AsType[*url.Error](err); ok {
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
		e.Kind, e.RetryAfter, e.Err = reasonKinds[a.Reason], a.RetryAfter, a // without what gophercloud put around it
	}
	return e
}

var reasonKinds = map[auth.Reason]cloud.Kind{
	auth.Rejected: cloud.KindDenied, auth.Throttled: cloud.KindThrottled, auth.NoEndpoint: cloud.KindUnsupported,
	auth.Misconfigured: cloud.KindInvalid, auth.Failed: cloud.KindUnavailable, auth.Unreachable: cloud.KindUnavailable,
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

func kindOf(code *gophercloud.ErrUnexpectedResponseCode, answer remoteAnswer) cloud.Kind {
	status, gone := code.Actual, code.Actual == http.StatusNotFound || code.Actual == http.StatusGone
	kind, known := statusKinds[status]
	switch {
	case status < http.StatusInternalServerError && isFull(answer):
		return cloud.KindQuota
	case isThrottling(status):
		return cloud.KindThrottled
	case gone && isObjectMissing(code.Method, code.URL, answer):
		return cloud.KindNotFound
	case gone && answer.neutron && code.Method != http.MethodGet && answer.neutronType != "HTTPNotFound":
		return cloud.KindInvalid // something that the request refers to is missing
	case status == http.StatusConflict && isOthers(answer):
		return cloud.KindConflict
	case status >= http.StatusInternalServerError && !known:
		return cloud.KindUnavailable
	}
	return kind
}

// statusKinds are the kinds of those that mean one, whatever comes with them.
var statusKinds = map[int]cloud.Kind{
	http.StatusUnauthorized: cloud.KindDenied, http.StatusForbidden: cloud.KindDenied,
	http.StatusConflict: cloud.KindStale, http.StatusPreconditionFailed: cloud.KindStale, http.StatusLocked: cloud.KindStale,
	http.StatusBadRequest: cloud.KindInvalid, http.StatusUnprocessableEntity: cloud.KindInvalid,
	http.StatusNotImplemented: cloud.KindUnsupported, http.StatusMethodNotAllowed: cloud.KindUnsupported,
	http.StatusNotAcceptable: cloud.KindUnsupported,
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

// maxRemote caps what an error quotes of a remote body.
const maxRemote = 300

// isObjectMissing reports whether a 404 is the service's own word that the object of the
// request does not exist. Nodes are deleted on it, so a proxy's page, a wrong endpoint
// (services answer unknown paths with a JSON 404 of their own) or the absence of another
// object than the one asked for do not count. What counts is the error document of Nova and
// Cinder (itemNotFound), Neutron (NeutronError), Octavia (faultstring, or title and
// description) whose message names an ID or tag that stands in the request's path, and
// Barbican's, which names none but says what was not found. A message that names another object as
// well is about that one.
func isObjectMissing(method, rawURL string, answer remoteAnswer) bool {
	u, err := url.Parse(rawURL)
	if err != nil || method == http.MethodPost || answer.message == "" {
		return false
	}
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	message := strings.ToLower(answer.message)
	if n := len(segments) - 2; answer.titled && strings.Contains(message, "not found") && n >= 0 &&
		(segments[n] == "secrets" || segments[n] == "containers") {
		return true
	}
	for _, id := range uuidLike.FindAllString(message, -1) {
		if !slices.ContainsFunc(segments, func(s string) bool { return strings.EqualFold(s, id) }) {
			return false // "router <id> has no interface on subnet <other id>"
		}
	}
	for i, s := range segments {
		isTag := i > 0 && segments[i-1] == "tags"
		if (text.IsUUID(s) || isTag) && strings.Contains(message, strings.ToLower(s)) {
			return true
		}
	}
	return false
}

// MadeID is the ID of what a call has made. A call that was answered with another document, as
// something between us and the service may do, is not known to have made it.
func MadeID(r interface{ ExtractInto(to any) error }, key string) (string, error) {
	var doc map[string]json.RawMessage
	if err := r.ExtractInto(&doc); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(doc[key], &made); err != nil || made.ID == "" {
		return "", fmt.Errorf("the answer has no %s with an ID", key)
	}
	return made.ID, nil
}

// remoteAnswer is an error document, read.
type remoteAnswer struct {
	message         string // as sent; "" where it is not an error document of a service
	neutronType     string
	neutron, titled bool   // which document it is
	text            string // fit for an error message
}

func parseAnswer(body []byte) remoteAnswer {
	var doc struct {
		ItemNotFound *struct {
			Message string `json:"message"`
		} `json:"itemNotFound"`
		NeutronError json.RawMessage `json:"NeutronError"`
		FaultString  string          `json:"faultstring"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
	}
	a := remoteAnswer{}
	if json.Unmarshal(body, &doc) == nil {
		switch {
		case doc.ItemNotFound != nil:
			a.message = doc.ItemNotFound.Message // {"itemNotFound": {"code": 404, "message": …}} (Nova, Cinder)
		case len(doc.NeutronError) > 0:
			var n struct{ Type, Message string }
			if json.Unmarshal(doc.NeutronError, &n) == nil {
				a.neutron, a.neutronType, a.message = true, n.Type, n.Message
			}
		case doc.FaultString != "":
			a.message = doc.FaultString // {"faultcode": …, "faultstring": …} (Octavia)
		case doc.Title != "" && doc.Description != "":
			a.titled, a.message = true, doc.Description // {"code": 404, "title": …, "description": …} (Barbican, Octavia)
		}
	}
	switch {
	case a.message != "":
		a.text = excerpt(a.message)
	case len(body) == 0:
		a.text = "empty answer"
	default:
		a.text = excerpt(anyMessage(body))
	}
	return a
}

// anyMessage finds the text of an error document of the form {"<name>": {"message": …}},
// and takes the tags out of whatever else it is.
func anyMessage(body []byte) string {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) == nil {
		for _, raw := range doc {
			var inner struct {
				Message string `json:"message"`
			}
			if json.Unmarshal(raw, &inner) == nil && inner.Message != "" {
				return inner.Message
			}
		}
	}
	if len(body) > 16*maxRemote {
		body = body[:16*maxRemote]
	}
	return htmlTag.ReplaceAllString(string(body), " ")
}

var (
	uuidLike = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	htmlTag  = regexp.MustCompile(`<[^>]*>`)
	// secretLike finds tokens (Fernet, JWS) and the values of fields that hold secrets.
	secretLike = regexp.MustCompile(`gAAAA[\w=-]+|eyJ[\w-]+\.[\w-]+\.[\w-]+|(?i:"?(?:password|secret|token|x-auth-token)"?\s*[:=]\s*"?)[^\s",}]+`)
)

// excerpt makes remote text fit for an error: redacted, on one line, capped.
func excerpt(s string) string {
	if len(s) > 16*maxRemote {
		s = s[:16*maxRemote]
	}
	return cloudauth.Excerpt(secretLike.ReplaceAllString(s, cloudauth.Redacted), maxRemote)
}
