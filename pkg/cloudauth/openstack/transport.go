package openstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	// maxErrorBody is what is kept of the body of a refusal; gophercloud puts all of it
	// into its errors.
	maxErrorBody = 4 << 10
	// maxSecret is longer than any token or password.
	maxSecret = 64 << 10
	// maxBody is the size over which an answer is taken for a mistake. 5,000 servers are
	// about 15 MB.
	maxBody = 128 << 20
)

// transport is what every request to OpenStack goes through: it measures, it bounds what
// comes back, and it keeps secrets out of refusals, which clouds like to repeat in them.
type transport struct {
	base     atomic.Pointer[http.Transport]
	newer    func(ctx context.Context, used *http.Transport) *http.Transport // to try after a certificate was not trusted; may return nil
	secrets  []cloudauth.Secret
	options  Options
	prefixes atomic.Pointer[map[string]string]
}

func newHTTPClient(s *settings, o Options) (*http.Client, *transport) {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       s.tls.Clone(),
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   100, // requests go out in parallel
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	t := &transport{secrets: s.cfg.secrets(), options: o}
	t.base.Store(base)
	return &http.Client{Transport: t, Timeout: o.RequestTimeout, CheckRedirect: sameHost}, t
}

// sameHost refuses to be sent elsewhere: the token, which goes along in a header of
// OpenStack's own, would go there too.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("%s://%s redirects to %s://%s, which is not followed because the token would go there; correct the endpoint", first.Scheme, first.Host, req.URL.Scheme, req.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("stopped after 5 redirects")
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.options.Intercept != nil && req.Method != http.MethodGet && req.Method != http.MethodHead {
		if service, _ := t.service(req); service != Keystone {
			return t.options.Intercept(service, req, sender{t})
		}
	}
	return t.send(req)
}

// sender sends requests.
type sender struct{ t *transport }

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s.t.send(req) }

// send sends a request. One that failed because one side did not trust the other's
// certificate is sent again once there are newer certificates.
func (t *transport) send(req *http.Request) (*http.Response, error) {
	base := t.base.Load()
	resp, err := t.exchange(base, req)
	if err == nil || !isDistrust(err) || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	next := t.newer(req.Context(), base)
	if next == nil {
		return nil, err
	}
	t.base.CompareAndSwap(base, next)
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		body, bodyErr := req.GetBody()
		if bodyErr != nil {
			return nil, err
		}
		again.Body = body
	}
	return t.exchange(next, again)
}

func (t *transport) exchange(base *http.Transport, req *http.Request) (*http.Response, error) {
	end := func(*http.Response) {}
	if t.options.Begin != nil {
		service, endpoint := t.service(req)
		var err error
		if end, err = t.options.Begin(service, endpoint, req); err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := base.RoundTrip(req)
	end(resp)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxBody}
		return resp, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+maxSecret))
	_ = resp.Body.Close()
	if err != nil && len(body) == 0 {
		return nil, fmt.Errorf("reading the answer %s: %w", resp.Status, err)
	}
	secrets := append([]cloudauth.Secret{
		cloudauth.NewSecret(req.Header.Get("X-Auth-Token")),
		cloudauth.NewSecret(req.Header.Get("X-Subject-Token")),
		cloudauth.NewSecret(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")),
	}, t.secrets...)
	body = []byte(cloudauth.RedactLong(string(body), maxErrorBody, secrets...))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections work.
func (t *transport) CloseIdleConnections() { t.base.Load().CloseIdleConnections() }

// service names the service that the request goes to, by the longest beginning of its URL
// that is known, and that beginning, its endpoint.
func (t *transport) service(req *http.Request) (name, endpoint string) {
	known := t.prefixes.Load()
	if known == nil { // before there is a catalog, only Keystone can be asked
		return Keystone, ""
	}
	target := req.URL.Scheme + "://" + req.URL.Host + req.URL.Path
	for prefix, n := range *known {
		if len(prefix) > len(endpoint) && strings.HasPrefix(target, prefix) {
			name, endpoint = n, prefix
		}
	}
	if name == "" {
		return "other", req.URL.Scheme + "://" + req.URL.Host
	}
	return name, endpoint
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d MiB, which is taken for a mistake", maxBody>>20)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}
