package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that counts.
func serve(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, n int32)) (address string, count *atomic.Int32) {
	t.Helper()
	count = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, count.Add(1)) }))
	t.Cleanup(server.Close)
	return server.URL, count
}

func open(t *testing.T, o Options) *Client {
	t.Helper()
	o.Backoff = time.Millisecond
	c := NewClient(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// How often a request is sent, by what comes of it.
func TestAttempts(t *testing.T) {
	status := func(codes ...int) func(http.ResponseWriter, *http.Request, int32) {
		return func(w http.ResponseWriter, _ *http.Request, n int32) { w.WriteHeader(codes[min(int(n), len(codes))-1]) }
	}
	cut := func(http.ResponseWriter, *http.Request, int32) { panic(http.ErrAbortHandler) }
	for name, tt := range map[string]struct {
		handle  func(http.ResponseWriter, *http.Request, int32)
		request Request
		want    int32
		status  int // 0 is an error
	}{
		"good":              {status(200), Request{}, 1, 200},
		"refused":           {status(403), Request{}, 1, 403},
		"broken":            {status(503), Request{}, nearAttempts, 503},
		"broken for long":   {status(503, 500, 502, 504, 200), Request{}, nearAttempts, 200},
		"slow down":         {status(429, 200), Request{}, 2, 200},
		"once":              {status(503, 200), Request{Once: true}, 1, 503},
		"not found":         {status(404, 200), Request{}, 1, 404},
		"not found, passes": {status(404, 410, 200), Request{Passes: func(s int) bool { return s == 404 || s == 410 }}, 3, 200},
		"cut":               {cut, Request{}, nearAttempts, 0},
		"redirect": {func(w http.ResponseWriter, r *http.Request, _ int32) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, Request{Body: []byte("s3cret")}, 1, 307},
		"endless": {func(w http.ResponseWriter, _ *http.Request, _ int32) {
			_, _ = w.Write(make([]byte, MaxAnswer+1))
		}, Request{}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			address, count := serve(t, tt.handle)
			tt.request.URL, tt.request.Near = address, true
			got, err := open(t, Options{}).Do(t.Context(), tt.request)
			if n := count.Load(); n != tt.want {
				t.Errorf("%d requests, want %d", n, tt.want)
			}
			if tt.status == 0 && err == nil || tt.status != 0 && (err != nil || got.Status != tt.status) {
				t.Errorf("got %+v, %v, want status %d", got, err, tt.status)
			}
		})
	}
}

// What waits is ended by the context, and a wait for which there is no time is not begun.
func TestWaits(t *testing.T) {
	address, count := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int32) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := open(t, Options{}).Do(ctx, Request{URL: address, Near: true})
	if err != nil || got.Status != http.StatusTooManyRequests || count.Load() != 1 || ctx.Err() != nil {
		t.Errorf("%d requests, %+v, %v", count.Load(), got, err)
	}
	for limit := 50 * time.Millisecond; ; limit *= 2 { // on a busy machine the answer takes longer than that
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(limit, cancel)
		got, err := open(t, Options{}).Do(ctx, Request{URL: address, Near: true})
		if err == nil && got.Status == http.StatusTooManyRequests && ctx.Err() != nil {
			break
		}
		if limit > 20*time.Second || !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}

// A proxy sees nothing that is not encrypted, and what is near goes through none; remote hosts are not
// spoken to without encryption at all.
func TestProxiesAndEncryption(t *testing.T) {
	proxy, proxied := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int32) { w.WriteHeader(http.StatusBadGateway) })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		t.Setenv(name, proxy)
	}
	near, _ := serve(t, func(http.ResponseWriter, *http.Request, int32) {})
	c := open(t, Options{Timeout: time.Minute})
	if got, err := c.Do(t.Context(), Request{URL: near, Near: true}); err != nil || got.Status != 200 {
		t.Errorf("near: %+v, %v", got, err)
	}
	_, err := c.Do(t.Context(), Request{URL: "https://169.254.0.1:1", Near: true, Once: true})
	if err == nil || errors.Is(err, ErrRefusedByProxy) {
		t.Errorf("near, and encrypted: %v", err)
	}
	_, err = c.Do(t.Context(), Request{URL: "http://sts.example/token", Body: []byte("s3cret")})
	if !errors.Is(err, ErrUnencrypted) || Explain("STS", err, "") != "credentials are not sent unencrypted to sts.example; use https://" {
		t.Errorf("got %v", err)
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("the proxy got %d requests", n)
	}
}

func TestExplain(t *testing.T) {
	secret := cloudauth.NewSecret("s3cret")
	hang, _ := serve(t, func(_ http.ResponseWriter, r *http.Request, _ int32) { <-r.Context().Done() })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = nil
	tlsServer.StartTLS()
	defer tlsServer.Close()
	for name, tt := range map[string]struct {
		ctx  context.Context
		url  string
		want string
	}{
		"hangs":       {t.Context(), hang + "/?token=s3cret", "X does not answer in time; check it"},
		"nobody":      {t.Context(), "http://127.0.0.1:1/?token=s3cret", "X cannot be reached (dial tcp 127.0.0.1:1: connect: connection refused); check it"},
		"canceled":    {canceled, hang, "X: context canceled"},
		"unknown CA":  {t.Context(), tlsServer.URL, "X has a certificate that the system's CAs do not vouch for; add the CA of the proxy in between to the system's, or set SSL_CERT_FILE"},
		"no address":  {t.Context(), "http://a b/s3cret", "X cannot be reached (it has no valid address); check it"},
		"no protocol": {t.Context(), "ftp://s3cret/", "X cannot be reached (unsupported protocol scheme \"ftp\"); check it"},
	} {
		limit := 5 * time.Minute
		if name == "hangs" {
			limit = 200 * time.Millisecond
		}
		_, err := open(t, Options{Timeout: limit}).Do(tt.ctx, Request{URL: tt.url, Near: true})
		if got := Explain("X", err, "check it", secret); err == nil || got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Of a certificate at the wrong time the machine's clock is looked at first, and not the network.
func TestExplainClock(t *testing.T) {
	err := &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time 2001-01-01T00:00:00Z is before 2026-01-01T00:00:00Z"}}
	got := Explain("X", &url.Error{Op: "Get", URL: "https://x/?token=s3cret", Err: err}, "check it")
	if want := "X has a certificate that is not valid (x509: certificate has expired or is not yet valid: current time 2001-01-01T00:00:00Z is before 2026-01-01T00:00:00Z); check the clock of the machine, and the certificate"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The answer's header and the program's name, for those who look.
func TestHeaders(t *testing.T) {
	var seen http.Header
	address, _ := serve(t, func(w http.ResponseWriter, r *http.Request, _ int32) {
		seen = r.Header.Clone()
		w.Header().Set("Metadata-Flavor", "Google")
	})
	mine := http.Header{"Metadata": {"true"}}
	got, err := open(t, Options{UserAgent: "test/1"}).Do(t.Context(), Request{URL: address, Near: true, Header: mine})
	if err != nil || got.Header.Get("Metadata-Flavor") != "Google" || seen.Get("Metadata") != "true" || seen.Get("User-Agent") != "test/1" {
		t.Errorf("%v, %+v, sent %v", err, got, seen)
	}
	if !slices.Equal(mine["Metadata"], []string{"true"}) || len(mine) != 1 || strings.Contains(seen.Get("User-Agent"), "Go-http-client") {
		t.Errorf("the caller's header has become %v", mine)
	}
}
