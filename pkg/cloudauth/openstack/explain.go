package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
)

// explain makes an *Error of what went wrong with Keystone: what, where, and what to do.
func (l *login) explain(err error) error {
	keystone := "Keystone at " + strings.TrimSuffix(l.settings.auth.IdentityEndpoint, "/")
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return l.explainAnswer(keystone, answer)
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax), errors.As(err, &mismatch), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return l.noKeystone(err)
	}
	return l.explainNetwork(keystone, err)
}

// noKeystone is about an answer that is not like one of Keystone.
func (l *login) noKeystone(err error) error {
	return &Error{
		Reason: Unreachable, cause: err,
		text: fmt.Sprintf("Keystone at %s does not answer as Keystone does (%s); check auth-url", strings.TrimSuffix(l.settings.auth.IdentityEndpoint, "/"), l.settings.excerpt(err.Error())),
	}
}

func (l *login) explainAnswer(keystone string, answer gophercloud.ErrUnexpectedResponseCode) error {
	message, ofKeystone := said(answer.Body)
	if challenge := answer.ResponseHeader.Get("Www-Authenticate"); !ofKeystone && strings.HasPrefix(challenge, "Bearer ") {
		message = challenge // the web server before Keystone, which looks after access tokens, says more there than in its page
	}
	status := fmt.Sprintf(" (%d)", answer.Actual)
	if message != "" {
		status = fmt.Sprintf(" (%d: %s)", answer.Actual, l.settings.excerpt(message))
	}
	e := &Error{RetryAfter: backoff.Asked(answer.ResponseHeader, time.Now())}
	switch code := answer.Actual; {
	case code == http.StatusUnauthorized, code == http.StatusNotFound && ofKeystone:
		// 404 in Keystone's own words is its answer to an unknown application credential.
		e.Reason = Rejected
		e.text = fmt.Sprintf("%s refuses %s%s; %s", keystone, l.settings.cfg.who(), status, l.hint())
	case code == http.StatusForbidden:
		e.Reason = Rejected
		e.text = fmt.Sprintf("%s forbids %s to log in%s; ask the cloud's operator whether the account is locked or its password expired", keystone, l.settings.cfg.who(), status)
	case code == http.StatusNotFound, code == http.StatusGone, code == http.StatusMethodNotAllowed, code == http.StatusMultipleChoices:
		e.Reason = Unreachable
		e.text = keystone + " has no Identity v3 API" + status + "; check auth-url"
	case code == http.StatusTooManyRequests:
		e.Reason = Throttled
		e.text = keystone + " asks to slow down" + status + "; it is asked again later"
	default:
		e.Reason = Failed
		e.text = keystone + " does not work" + status + "; it is asked again later"
		if answer.Actual < http.StatusInternalServerError {
			e.text = keystone + " refuses the request" + status + "; check auth-url and the keys of [Global] in cloud.conf"
		}
	}
	return e
}

// hint says what to look at after a refusal, by the way of authentication.
func (l *login) hint() string {
	c := l.settings.cfg
	switch {
	case c.method() == byApplicationCredential:
		return "it is wrong, expired or deleted: make a new one (openstack application credential create) and put its id and secret into cloud.conf [Global]"
	case c.method() == byAccessToken:
		return "check that this identity provider takes the token's issuer and audience, and that its mapping gives the token's subject a role in the project (openstack mapping show), and identity-provider, protocol and the project in cloud.conf [Global]"
	case c.method() == byToken:
		return "it is expired or revoked: put a new one into cloud.conf [Global] token, or use an application credential, which can be renewed"
	case c.TrustID != "":
		return "check trust-id, the trustee and its password in cloud.conf [Global]"
	}
	return "in cloud.conf [Global] check the password, the user's domain and the project, and that the user has a role in it"
}

func (l *login) tokenExpired() error {
	return &Error{Reason: Rejected, text: "the cloud refuses the configured token; " + l.hint()}
}

// said takes the message out of an error body, and reports whether it is one of Keystone's.
func said(body []byte) (message string, ofKeystone bool) {
	var b struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &b) == nil && b.Error.Message != "" {
		return b.Error.Message, true
	}
	return string(body), false
}

func (l *login) explainNetwork(keystone string, err error) error {
	e := &Error{Reason: Unreachable, cause: err}
	detail := err
	var u *url.Error
	if errors.As(err, &u) {
		detail = u.Err // without method and URL, which are said already
	}
	text := l.settings.excerpt(detail.Error())
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		e.text = keystone + ": " + context.Canceled.Error()
	case errors.As(err, &unknown):
		trust := "the system's CAs do"
		if l.settings.cfg.CAFile != "" {
			trust = "ca-file " + l.settings.cfg.CAFile + " does"
		}
		e.text = fmt.Sprintf("%s has a certificate that %s not vouch for; set ca-file in cloud.conf [Global] to the PEM file of the CA that issued it", keystone, trust)
	case errors.As(err, &name):
		e.text = fmt.Sprintf("%s has a certificate for another name (%s); correct the host in auth-url", keystone, text)
	case errors.As(err, &invalid):
		e.text = fmt.Sprintf("%s has a certificate that is not valid (%s); check the clocks and renew it", keystone, text)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.text = keystone + " does not speak TLS; should auth-url begin with http:// ?"
	case tlsAlert(err) != "":
		e.text = fmt.Sprintf("%s refuses the TLS handshake (%s); if it wants a client certificate, check cert-file and key-file", keystone, text)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.text = keystone + " does not answer in time; check auth-url and the network"
	default:
		e.text = fmt.Sprintf("%s cannot be reached (%s); check auth-url and the network", keystone, text)
	}
	return e
}
