package gcp

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// request is one to Google or to what gives a subject token.
type request struct {
	// service and operation are for errors: "Google STS", "token".
	service, operation string
	url                string
	header             http.Header
	body               []byte // sent with POST
	// local is for what is next to this machine: nothing of it goes through a proxy.
	local bool
	// once is sent once only.
	once bool
	// who is as whom it is sent, and secrets what is in it, for errors.
	who     string
	secrets []cloudauth.Secret
	// hint says what to do about a refusal, by its status and code.
	hint func(status int, code string) string
}

func (r request) name() string {
	if r.operation == "" {
		return r.service
	}
	return r.service + " (" + r.operation + ")"
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request by the rules of pkg/cloudauth/wire, and returns the body of a good answer. Its errors
// are *cloudauth.Error.
func (s *Session) send(ctx context.Context, r request) (answer, error) {
	response, err := s.client.Do(ctx, wire.Request{URL: r.url, Body: r.body, Header: r.header, Near: r.local, Once: r.once})
	if err != nil {
		return answer{}, r.unreachable(err)
	}
	a := answer{status: response.Status, header: response.Header, body: response.Body}
	if a.status != http.StatusOK {
		return a, r.refused(a)
	}
	return a, nil
}

// form makes a request of a form.
func (r request) form(values url.Values) request {
	r.body = []byte(values.Encode())
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.header.Set("Accept", "application/json")
	return r
}

// host is whom the request goes to, for errors.
func (r request) host() string {
	u, err := url.Parse(r.url)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Host, ":443")
}
