package azure

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultRequestTimeout = 30 * time.Second
	defaultBackoff        = time.Second
	// attempts is how often a request is sent at most while the answers can pass.
	attempts = 3
	// maxAnswer bounds what is read of an answer; real ones have a few KiB.
	maxAnswer = 1 << 20
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
	// metadataDial is how long a connection to the metadata service may take: where there is none,
	// often nothing refuses it either.
	metadataDial = 5 * time.Second
)

// Client sends requests that carry credentials: to the one host that is meant, no redirects followed,
// with bounded answers. What can pass is tried again.
type Client struct {
	userAgent string
	timeout   time.Duration
	backoff   time.Duration
	remote    *http.Client
	metadata  *http.Client // without a proxy
}

// NewClient returns a Client.
func NewClient(o Options) *Client {
	c := &Client{userAgent: o.UserAgent, timeout: o.RequestTimeout, backoff: o.backoff}
	if c.timeout <= 0 {
		c.timeout = defaultRequestTimeout
	}
	if c.backoff <= 0 {
		c.backoff = defaultBackoff
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.remote = &http.Client{Transport: transport(), CheckRedirect: stay}
	near := transport()
	near.Proxy = nil
	near.DialContext = (&net.Dialer{Timeout: metadataDial}).DialContext
	c.metadata = &http.Client{Transport: near, CheckRedirect: stay}
	return c
}

func transport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute,
	}
}

// Request is a request to one host.
type Request struct {
	// Where says who is asked, for errors.
	Where string
	// URL has to be https.
	URL string
	// Form is sent with POST; without it the request is a GET.
	Form url.Values
	// Passes reports whether another try may help, beside 429 and 5xx; nil for no others.
	Passes func(status int) bool

	metadata bool
}

// Response is an answer, whatever its status.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request, again if the answer can pass and there is time. Errors are *Error.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	for attempt := 1; ; attempt++ {
		response, err := c.once(ctx, r)
		if attempt >= attempts || !r.again(response, err) || ctx.Err() != nil {
			return response, explained(r.Where, err)
		}
		delay := c.backoff << (attempt - 1)
		if response != nil {
			delay = max(delay, retryAfter(response.Header))
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < delay {
			return response, explained(r.Where, err)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return response, explained(r.Where, err)
		}
	}
}

func explained(where string, err error) error {
	if err == nil {
		return nil
	}
	return explain(where, err)
}

// again reports whether another try may help. A connection that was not to be had is none of these:
// the user is better served with an error than with a wait.
func (r Request) again(response *Response, err error) bool {
	if err != nil {
		var own *Error
		var op *net.OpError
		var timeout net.Error
		return !errors.As(err, &own) && (!errors.As(err, &op) || op.Op != "dial") && (!errors.As(err, &timeout) || !timeout.Timeout())
	}
	return response.Status == http.StatusTooManyRequests || response.Status >= 500 || r.Passes != nil && r.Passes(response.Status)
}

// retryAfter reads how long the service wants to be left alone.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// once sends the request once.
func (c *Client) once(ctx context.Context, r Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	method, body := http.MethodGet, io.Reader(nil)
	if r.Form != nil {
		method, body = http.MethodPost, strings.NewReader(r.Form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, body)
	if err != nil {
		return nil, NewError(Misconfigured, "%s has no valid address", r.Where)
	}
	if !r.metadata && req.URL.Scheme != "https" {
		return nil, NewError(Misconfigured, "credentials are not sent unencrypted to %s", req.URL.Host)
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json")
	client := c.remote
	if r.metadata {
		client = c.metadata
		req.Header.Set("Metadata", "true")
	}
	if r.Form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, &url.Error{Op: method, URL: r.URL, Err: err}
	}
	if len(data) > maxAnswer {
		return nil, NewError(Failed, "%s answers with more than %d KiB; is a proxy or another service in between?", r.Where, maxAnswer>>10)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: data}, nil
}
