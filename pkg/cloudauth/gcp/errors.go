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

// misconfigured makes a *cloudauth.Error of all the mistakes, on one line.
func misconfigured(err error) error {
	return &cloudauth.Error{Reason: cloudauth.Misconfigured, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Cause: err}
}

const checkNetwork = "check the network, firewall and proxy"

// unreachable explains why there is no answer.
func (r request) unreachable(err error) error {
	e := &cloudauth.Error{Reason: cloudauth.Unreachable, Cause: err}
	next := checkNetwork
	if r.local {
		next = "check that it runs and what its address is"
	}
	if r.service == metadataServer {
		e.Reason, next = cloudauth.NoCredentials, noMetadata
	}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		e.Reason = cloudauth.Failed
	case errors.Is(err, wire.ErrUnencrypted):
		e.Reason = cloudauth.Misconfigured
	}
	e.Text = wire.Explain(r.service+" at "+r.host(), err, next, r.secrets...)
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
		return cloudauth.NewError(cloudauth.Throttled, "%s asks to slow down (%s); it is asked again later", where, said)
	case a.status >= http.StatusInternalServerError:
		return cloudauth.NewError(cloudauth.Failed, "%s does not work (%s); it is asked again later", where, said)
	case a.status < http.StatusBadRequest:
		return cloudauth.NewError(cloudauth.Failed, "%s at %s answers %d, which is not followed; is a proxy or another service in between?", where, r.host(), a.status)
	}
	next := "check its configuration"
	if r.hint != nil {
		next = r.hint(a.status, code)
	}
	return cloudauth.NewError(cloudauth.Rejected, "%s refuses %s (%s); %s", where, r.who, said, next)
}

// noToken is a good answer that has none in it.
func (r request) noToken() error {
	return cloudauth.NewError(cloudauth.Failed, "%s at %s answers without a usable token; is a proxy or another service in between?", r.name(), r.host())
}
