package gcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	// maxAnswer bounds what is read of an answer: tokens have a few kilobytes.
	maxAnswer = 256 << 10
	// attempts is how often a request is sent when the service says that it does not work.
	attempts = 3
	// firstDelay is about how long the second attempt is waited for; it doubles.
	firstDelay = 200 * time.Millisecond
	// connectRemote and connectLocal bound how long a connection may take. Outside of Google
	// Cloud, nothing may answer at the metadata server's address, not even with a refusal.
	connectRemote, connectLocal = 10 * time.Second, 3 * time.Second
)

// request is one to Google or to what gives a subject token.
type request struct {
	// service and operation are for errors: "Google STS", "token".
	service, operation string
	method, url        string
	header             http.Header
	body               []byte
	// local is for what is next to this machine: nothing of it goes through a proxy.
	local bool
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

// caller sends requests.
type caller struct {
	options Options
	remote  *http.Client
	local   *http.Client
	delay   time.Duration
}

func newCaller(o Options) *caller {
	// A redirect would take the secrets along to wherever it leads.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport := func(proxy func(*http.Request) (*url.URL, error), connect time.Duration) *http.Client {
		t := &http.Transport{Proxy: proxy, DialContext: (&net.Dialer{Timeout: connect}).DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10}
		return &http.Client{Transport: t, CheckRedirect: stay}
	}
	return &caller{options: o, remote: transport(http.ProxyFromEnvironment, connectRemote), local: transport(nil, connectLocal), delay: firstDelay}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request, again if the service has a problem that may pass, and returns the body of
// a good answer. Its errors are *Error.
func (c *caller) do(ctx context.Context, r request) (answer, error) {
	delay := c.delay
	for attempt := 1; ; attempt++ {
		a, err := c.once(ctx, r)
		if err != nil {
			return answer{}, r.unreachable(err)
		}
		if a.status == http.StatusOK {
			return a, nil
		}
		refusal := r.refused(a)
		passing := a.status == http.StatusTooManyRequests || a.status >= http.StatusInternalServerError
		if !passing || attempt >= attempts {
			return a, refusal
		}
		timer := time.NewTimer(delay/2 + rand.N(delay)) //nolint:gosec // jitter is no secret
		delay *= 2
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, refusal
		}
	}
}

var errTooLong = errors.New("the answer is too long")

// once sends a request once.
func (c *caller) once(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	if c.options.UserAgent != "" {
		req.Header.Set("User-Agent", c.options.UserAgent)
	}
	client := c.remote
	if r.local {
		client = c.local
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return answer{}, errTooLong
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}, nil
}

// form makes a request of a form.
func (r request) form(values url.Values) request {
	r.method, r.body = http.MethodPost, []byte(values.Encode())
	r.header = headers(r.header, "Content-Type", "application/x-www-form-urlencoded", "Accept", "application/json")
	return r
}

func headers(h http.Header, pairs ...string) http.Header {
	if h == nil {
		h = http.Header{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// host is whom the request goes to, for errors.
func (r request) host() string {
	u, err := url.Parse(r.url)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Host, ":443")
}
