package azure

import (
	"errors"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// misconfigured makes a *cloudauth.Error of all the mistakes, on one line.
func misconfigured(err error) error {
	return &cloudauth.Error{Reason: cloudauth.Misconfigured, Text: "Azure credentials: " + strings.ReplaceAll(err.Error(), "\n", "; "), Cause: err}
}

// explain makes a *cloudauth.Error of what kept a request from being answered.
func explain(r Request, err error) error {
	where := r.Where
	if u, parseErr := url.Parse(r.URL); parseErr == nil && !strings.Contains(where, u.Host) {
		where += " at " + u.Host
	}
	e := &cloudauth.Error{Reason: cloudauth.Unreachable, Cause: err, Text: wire.Explain(where, err, "check the network, private endpoints and proxy")}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		e.Reason = cloudauth.Failed
	case errors.Is(err, wire.ErrUnencrypted):
		e.Reason = cloudauth.Misconfigured
	}
	return e
}

// Refusal makes a *cloudauth.Error of an answer that is none of the good ones. said is what it says, fit for
// an error, and hint what to do if it is a refusal.
func (r *Response) Refusal(where, who, said, hint string) *cloudauth.Error {
	switch {
	case r.Status == 429:
		return cloudauth.NewError(cloudauth.Throttled, "%s asks to slow down (%s); it is asked again later", where, said)
	case r.Status >= 500:
		return cloudauth.NewError(cloudauth.Failed, "%s does not work (%d %s); it is asked again later", where, r.Status, said)
	case r.Status >= 300 && r.Status < 400:
		return cloudauth.NewError(cloudauth.Failed, "%s redirects to another address (%d), which is not followed; is a proxy or another service in between?", where, r.Status)
	}
	return cloudauth.NewError(cloudauth.Rejected, "%s refuses %s (%d %s); %s", where, who, r.Status, said, hint)
}
