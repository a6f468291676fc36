package azure

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Client sends requests that carry credentials, by the rules of pkg/cloudauth/wire.
type Client struct {
	wire    *wire.Client
	timeout time.Duration // of a request
}

const defaultRequestTimeout = 30 * time.Second

// NewClient returns a Client.
func NewClient(o Options) *Client {
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	return &Client{timeout: o.RequestTimeout, wire: wire.NewClient(wire.Options{UserAgent: o.UserAgent, Timeout: o.RequestTimeout, Backoff: o.backoff, Remote: o.remote})}
}

// Request is a request to one host.
type Request struct {
	// Where says who is asked, for errors.
	Where string
	// URL has to be https.
	URL string
	// Form is sent with POST; without it the request is a GET.
	Form url.Values

	metadata bool
}

// Response is an answer, whatever its status.
type Response wire.Response

// Do sends a request, again if the answer can pass and there is time. Errors are *cloudauth.Error.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	out := wire.Request{URL: r.URL, Near: r.metadata, Header: http.Header{"Accept": {"application/json"}}}
	if r.metadata {
		out.Header.Set("Metadata", "true")
		// Both are documented for a service that is being updated.
		out.Passes = func(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }
	}
	if r.Form != nil {
		out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		out.Body = []byte(r.Form.Encode())
	}
	response, err := c.wire.Do(ctx, out)
	if err != nil {
		return nil, explain(r, err)
	}
	return (*Response)(response), nil
}
