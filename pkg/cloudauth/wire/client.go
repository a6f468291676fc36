package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
)

const (
	// MaxAnswer bounds what is read of an answer; tokens have a few KiB.
	MaxAnswer = 1 << 20

	defaultTimeout = 30 * time.Second
	defaultBackoff = 500 * time.Millisecond
	// attempts is how often a request is sent at most while the answers can pass, and nearAttempts the same for
	// the metadata services, which are updated and restarted under the machines: their clouds want them to be
	// asked again for seconds.
	attempts, nearAttempts = 3, 5
	// connect and connectNear are how long a connection may take. Where there is no metadata service, often
	// nothing refuses the connection either.
	connect, connectNear = 10 * time.Second, 4 * time.Second
)

// ErrUnencrypted is a request that would show credentials to whoever listens.
var ErrUnencrypted = errors.New("credentials are not sent unencrypted")

// Options are the parts of a Client that are the program's.
type Options struct {
	// UserAgent is sent with every request.
	UserAgent string
	// Timeout bounds each request; 0 means 30 s.
	Timeout time.Duration
	// Backoff is about how long the second attempt is waited for; 0 means 500 ms. It doubles.
	Backoff time.Duration
	// Remote changes how remote hosts are reached; nil changes nothing.
	Remote func(*http.Transport)
}

// Client sends requests by the package's rules. It may be used concurrently.
type Client struct {
	options      Options
	remote, near *http.Client
}

// NewClient returns a Client.
func NewClient(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Backoff <= 0 {
		o.Backoff = defaultBackoff
	}
	remote, near := transport(connect), transport(connectNear)
	near.Proxy = nil
	if o.Remote != nil {
		o.Remote(remote)
	}
	return &Client{options: o, remote: &http.Client{Transport: remote, CheckRedirect: Stay}, near: &http.Client{Transport: near, CheckRedirect: Stay}}
}

func transport(connect time.Duration) *http.Transport {
	return &http.Transport{
		Proxy: Proxy, DialContext: (&net.Dialer{Timeout: connect}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true, MaxResponseHeaderBytes: MaxHeader, IdleConnTimeout: 30 * time.Second, OnProxyConnectResponse: ProxyAnswer,
	}
}

// CloseIdleConnections ends the connections that no request uses.
func (c *Client) CloseIdleConnections() {
	c.remote.CloseIdleConnections()
	c.near.CloseIdleConnections()
}

// Request is a request to one host.
type Request struct {
	URL string
	// Body is sent with POST; without it the request is a GET.
	Body   []byte
	Header http.Header
	// Near is what is on this machine or next to it, of which the caller made sure: it may be
	// unencrypted, and goes through no proxy.
	Near bool
	// Once sends it once only.
	Once bool
	// Passes reports whether another attempt may help, beside 429 and 5xx; nil for no others.
	Passes func(status int) bool
}

// Response is an answer, whatever its status.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request, again if what came of it can pass and there is time. Explain words its errors.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	most := attempts
	switch {
	case r.Once:
		most = 1
	case r.Near:
		most = nearAttempts
	}
	for attempt := 1; ; attempt++ {
		response, err := c.once(ctx, r)
		if attempt >= most || !r.again(response, err) || ctx.Err() != nil {
			return response, err
		}
		delay := backoff.Doubling(c.options.Backoff, time.Hour, attempt)
		delay = backoff.Jitter(delay/2, delay*3/2)
		if response != nil {
			delay = max(delay, backoff.Asked(response.Header, time.Now()))
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < delay {
			return response, err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return response, err
		}
	}
}

// again reports whether another attempt may help.
func (r Request) again(response *Response, err error) bool {
	if err == nil {
		return response.Status == http.StatusTooManyRequests || response.Status >= http.StatusInternalServerError || r.Passes != nil && r.Passes(response.Status)
	}
	return !Lasts(err)
}

// once sends the request once.
func (c *Client) once(ctx context.Context, r Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	method, body, client := http.MethodGet, io.Reader(nil), c.remote
	if r.Body != nil {
		method, body = http.MethodPost, bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, body)
	if err != nil {
		return nil, errors.New("it has no valid address") // the library's error would repeat it
	}
	switch {
	case r.Near:
		client = c.near
	case req.URL.Scheme != "https":
		return nil, fmt.Errorf("%w to %s", ErrUnencrypted, req.URL.Host)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	req.Header.Set("User-Agent", c.options.UserAgent)
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	data, err := ReadAll(response.Body, MaxAnswer)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: data}, nil
}
