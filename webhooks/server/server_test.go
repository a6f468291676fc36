package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// probe is a request of a health check.
var probe = httptest.NewRequest(http.MethodGet, "/readyz", nil)

func TestAnswer(t *testing.T) {
	r := start(t, func(_ context.Context, req admission.Request) admission.Response {
		return admission.Allowed("hello " + req.Name)
	})
	for name, change := range map[string]func(*http.Transport){
		"HTTP/2": func(*http.Transport) {},
		"HTTP/1.1": func(tr *http.Transport) {
			tr.ForceAttemptHTTP2 = false
			tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
		},
		"TLS 1.2": func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 },
		"IP":      func(tr *http.Transport) { tr.TLSClientConfig.ServerName = "127.0.0.1" },
	} {
		t.Run(name, func(t *testing.T) {
			review, status := r.post(t, r.client(t, change), "?timeout=5s", []byte(goodReview))
			if resp := review.Response; status != http.StatusOK || !resp.Allowed || resp.UID != "u1" || resp.Result.Message != "hello pv" {
				t.Errorf("HTTP %d, %+v", status, resp)
			}
		})
	}
}

func TestTLSVersions(t *testing.T) {
	for name, tt := range map[string]struct {
		min    string
		client uint16
		ok     bool
	}{
		"1.1 refused":            {"VersionTLS12", tls.VersionTLS11, false},
		"1.2":                    {"VersionTLS12", tls.VersionTLS12, true},
		"1.2 refused below 1.3":  {"VersionTLS13", tls.VersionTLS12, false},
		"1.3 where it is needed": {"VersionTLS13", tls.VersionTLS13, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, allow, func(o *server.Options) { o.MinTLSVersion = tt.min })
			conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tt.client, InsecureSkipVerify: true})
			if (err == nil) != tt.ok {
				t.Errorf("error %v, want success: %v", err, tt.ok)
			}
			if err == nil {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestOff: port 0 and a server without webhooks bind nothing, end at once, and are ready.
func TestOff(t *testing.T) {
	off, err := server.New(server.Options{Port: 0})
	if err != nil {
		t.Fatal(err)
	}
	off.Register("test", path, admission.HandlerFunc(allow))
	taken := listen(t) // would make Start fail if it tried to bind
	defer func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	}()
	idle, err := server.New(server.Options{BindAddress: "127.0.0.1", Port: taken.Addr().(*net.TCPAddr).Port, Certs: certstest.Source(t, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*server.Server{"port 0": off, "no webhooks": idle} {
		if err := s.Start(t.Context()); err != nil || s.Addr() != nil {
			t.Errorf("%s: Start returned %v, address %v", name, err, s.Addr())
		}
		if err := s.Ready(probe); err != nil {
			t.Errorf("%s: not ready: %v", name, err)
		}
	}
	if off.CABundle() != nil {
		t.Error("a server that is off has a CA bundle")
	}
}

func TestPortTaken(t *testing.T) {
	taken := listen(t)
	defer func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := server.New(server.Options{BindAddress: "127.0.0.1", Port: taken.Addr().(*net.TCPAddr).Port, Certs: certstest.Source(t, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	s.Register("test", path, admission.HandlerFunc(allow))
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another --webhook-bind-address or --webhook-secure-port") {
		t.Errorf("got %v, want an error with the next step", err)
	}
}

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"port":          {[]string{"--webhook-secure-port=70000"}, "--webhook-secure-port: 70000 is not a port"},
		"negative port": {[]string{"--webhook-secure-port=-1"}, "--webhook-secure-port: -1 is not a port"},
		"address":       {[]string{"--webhook-bind-address=localhost"}, `--webhook-bind-address: "localhost" is not an IP address`},
		"TLS version":   {[]string{"--webhook-tls-min-version=VersionTLS11"}, "use VersionTLS12 or VersionTLS13"},
		"delay":         {[]string{"--webhook-shutdown-delay=-1s"}, "--webhook-shutdown-delay: -1s is negative"},
		"unknown suite": {[]string{"--webhook-tls-cipher-suites=TLS_NONE"}, "--webhook-tls-cipher-suites: Cipher suite TLS_NONE not supported or doesn't exist; use some of TLS_"},
		"weak suite":    {[]string{"--webhook-tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"}, "--webhook-tls-cipher-suites: TLS_RSA_WITH_RC4_128_SHA is insecure; use some of TLS_"},
		"not HTTP/2's":  {[]string{"--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, "HTTP/2 needs TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"suite":         {[]string{"--webhook-tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, ""},
		"HTTP/1 suite":  {[]string{"--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "--webhook-disable-http2-serving"}, ""},
		"1.3 and suite": {[]string{"--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "--webhook-tls-min-version=VersionTLS13"}, ""},
		"curve":         {[]string{"--webhook-tls-curve-preferences=7"}, "--webhook-tls-curve-preferences:"},
		"names alone":   {[]string{"--webhook-client-allowed-names=a"}, "--webhook-client-allowed-names requires --webhook-client-ca-file"},
		"empty name":    {[]string{"--webhook-client-ca-file=/x", "--webhook-client-allowed-names=a,"}, "--webhook-client-allowed-names: a name is empty"},
		"off":           {[]string{"--webhook-secure-port=0"}, ""},
		"defaults":      {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := server.NewOptions()
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			checkNew(t, o, tt.want)
		})
	}
}

func TestHealth(t *testing.T) {
	cloudErr := errors.New("password refused")
	r := start(t, allow, func(o *server.Options) { o.Ready = func(context.Context) error { return cloudErr } })
	c := r.client(t)
	type answer struct {
		Body string
		Code int
	}
	check := func(path string, want answer) {
		t.Helper()
		body, code := get(t, c, r.url+path)
		if diff := cmp.Diff(want, answer{body, code}); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", path, diff)
		}
	}
	check("/livez", answer{"ok\n", 200})
	check("/readyz", answer{"webhook server: cloud is not ready: password refused\n", 503})
	cloudErr = nil
	check("/readyz", answer{"ok\n", 200})
	// A cloud that is gone for a while does not take the webhooks along: they can say so.
	cloudErr = errors.New("away")
	check("/readyz", answer{"ok\n", 200})
	check("/livez", answer{"ok\n", 200})
}

func TestNotStartedIsNotReady(t *testing.T) {
	s, err := server.New(server.Options{Port: 1, Certs: certstest.Source(t, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	s.Register("test", path, admission.HandlerFunc(allow))
	if err := s.Ready(probe); err == nil {
		t.Error("ready before it was started")
	}
	if s.NeedLeaderElection() {
		t.Error("needs leader election")
	}
}

func TestBadPaths(t *testing.T) {
	for _, p := range []string{"/a", "a", "/readyz", "/", ""} {
		s, err := server.New(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Register("a", "/a", admission.HandlerFunc(allow))
		s.Register("b", p, admission.HandlerFunc(allow))
		if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), strconv.Quote(p)) {
			t.Errorf("path %q was registered: Start returned %v", p, err)
		}
	}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Register("a", "/a", admission.HandlerFunc(allow))
	s.Register("a", "/b", admission.HandlerFunc(allow))
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `the name of webhook "a" is taken`) {
		t.Errorf("a name was registered twice: Start returned %v", err)
	}
}

// TestPanic: a webhook that panics refuses, and does not take the server along.
func TestPanic(t *testing.T) {
	r := start(t, func(_ context.Context, req admission.Request) admission.Response {
		panic("s3cret of " + req.Name)
	})
	for range 2 {
		review, status := r.post(t, r.client(t), "", []byte(goodReview))
		resp := review.Response
		if status != http.StatusOK || resp.Allowed || resp.UID != "u1" || resp.Result.Code != 500 || strings.Contains(resp.Result.Message, "s3cret") {
			t.Errorf("HTTP %d, %+v %+v", status, resp, resp.Result)
		}
	}
}

// TestDeadline: the webhook's context ends before the API server gives up.
func TestDeadline(t *testing.T) {
	for query, bounds := range map[string][2]time.Duration{
		"?timeout=2s":   {1500 * time.Millisecond, 1600 * time.Millisecond},
		"?timeout=1h":   {25 * time.Second, 28 * time.Second},
		"?timeout=oops": {7 * time.Second, 8 * time.Second},
		"":              {7 * time.Second, 8 * time.Second},
	} {
		left := make(chan time.Duration, 1)
		r := start(t, func(ctx context.Context, _ admission.Request) admission.Response {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return admission.Allowed("")
		})
		r.post(t, r.client(t), query, []byte(goodReview))
		if got := <-left; got < bounds[0]/2 || got > bounds[1] {
			t.Errorf("timeout %q gave the webhook %s, want about %s", query, got, bounds)
		}
	}
}

// TestDefectRequestContextDropped: a client that gives up ends the webhook's context.
func TestDefectRequestContextDropped(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	r := start(t, func(ctx context.Context, _ admission.Request) admission.Response {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return admission.Denied("too late")
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path+"?timeout=30s", strings.NewReader(goodReview))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		resp, err := r.client(t).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	<-entered
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("client got %v", err)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("webhook's context ended with %v", err)
	}
}

// TestDrain: requests in flight are finished, with their context intact, after the end was asked for.
func TestDrain(t *testing.T) {
	entered, finish, ctxErr := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	r := start(t, func(ctx context.Context, _ admission.Request) admission.Response {
		close(entered)
		<-finish
		ctxErr <- ctx.Err()
		return admission.Allowed("")
	})
	answered := make(chan bool, 1)
	c := r.client(t)
	go func() {
		review, _ := r.post(t, c, "?timeout=30s", []byte(goodReview))
		answered <- review.Response.Allowed
	}()
	<-entered
	r.stop()
	eventually.NoError(t, func() error {
		if conn, err := net.Dial("tcp", r.Addr().String()); err == nil {
			_ = conn.Close()
			return errors.New("new connections are accepted while draining")
		}
		return nil
	})
	if err := r.Ready(probe); err == nil {
		t.Error("ready while draining")
	}
	select {
	case err := <-r.done:
		t.Fatalf("server ended (%v) with a request in flight", err)
	default:
	}
	close(finish)
	if !<-answered {
		t.Error("the request in flight was not answered")
	}
	if err := <-ctxErr; err != nil {
		t.Errorf("the context of the request in flight ended: %v", err)
	}
}

// TestDrainTimeout: a webhook that hangs is cut off.
func TestDrainTimeout(t *testing.T) {
	entered, cause := make(chan struct{}), make(chan error, 1)
	r := start(t, func(ctx context.Context, _ admission.Request) admission.Response {
		close(entered)
		<-ctx.Done()
		cause <- ctx.Err()
		return admission.Denied("cut off")
	}, func(o *server.Options) { o.DrainTimeout = 50 * time.Millisecond })
	ended := make(chan struct{})
	c := r.client(t)
	go func() {
		defer close(ended)
		req, err := http.NewRequest(http.MethodPost, r.url+path+"?timeout=30s", strings.NewReader(goodReview))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := c.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	<-entered
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v, want that it was cut off before its time was up", err)
	}
	<-ended
}

// TestShutdownDelay: while readiness is gone, requests are still answered.
func TestShutdownDelay(t *testing.T) {
	r := start(t, allow, func(o *server.Options) { o.ShutdownDelay = time.Second })
	r.stop()
	eventually.NoError(t, func() error {
		if r.Ready(probe) == nil {
			return errors.New("still ready")
		}
		return nil
	})
	if review, _ := r.post(t, r.client(t), "", []byte(goodReview)); !review.Response.Allowed {
		t.Errorf("got %+v", review.Response)
	}
}

func TestMetrics(t *testing.T) {
	answers := map[string]admission.Response{
		"allowed": admission.Allowed(""), "denied": admission.Denied("no"), "error": admission.Errored(500, errors.New("oops")),
	}
	r := start(t, func(_ context.Context, req admission.Request) admission.Response { return answers[req.Name] })
	c := r.client(t)
	for name := range answers {
		r.post(t, c, "", []byte(strings.Replace(goodReview, `"name":"pv"`, `"name":"`+name+`"`, 1)))
	}
	r.post(t, c, "", []byte("{"))
	const name = "isthmus_webhook_request_duration_seconds"
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
		switch f.GetName() {
		case name:
			seen := 0
			for _, s := range f.GetMetric() {
				if s.GetHistogram().GetSampleCount() > 0 {
					seen++
				}
			}
			if got := len(f.GetMetric()); got != 8 || seen != 4 {
				t.Errorf("%s has %d series, want one for each outcome, and %d with requests, want allowed, denied, error, invalid", name, got, seen)
			}
		case "isthmus_webhook_certificate_expiration_timestamp_seconds":
			if at := time.Unix(int64(f.GetMetric()[0].GetGauge().GetValue()), 0); time.Until(at) < 27*24*time.Hour || time.Until(at) > 32*24*time.Hour {
				t.Errorf("certificate expires at %s", at)
			}
		case "isthmus_webhook_ca_expiration_timestamp_seconds":
			if got, want := int64(f.GetMetric()[0].GetGauge().GetValue()), certs.FirstExpiry(r.CABundle()).Unix(); got != want || got <= 0 {
				t.Errorf("the CA expires at %d, want %d", got, want)
			}
		case "isthmus_webhook_requests_in_flight":
			if v := f.GetMetric()[0].GetGauge().GetValue(); v != 0 {
				t.Errorf("%v requests in flight", v)
			}
		}
	}
	if len(found) != 5 {
		t.Errorf("metrics %v, want five", found)
	}
}

// TestHotReload: new files are served without a restart; broken ones are not.
func TestHotReload(t *testing.T) {
	r := start(t, allow)
	serial := func() string {
		conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	r.ca.WriteDir(t, r.certDir)
	eventually.NoError(t, func() error {
		if serial() == before {
			return errors.New("the old certificate is served still")
		}
		return nil
	})
	if review, _ := r.post(t, r.client(t), "", []byte(goodReview)); !review.Response.Allowed {
		t.Error("the new certificate is not trusted by the same CA")
	}
}
