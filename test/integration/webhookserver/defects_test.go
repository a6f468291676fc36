package webhookserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// Whatever a handler answers, or whether it answers at all, reaches the user as a message;
// the framework makes it an HTTP status 500.
func TestDefectHandlerErrorsBecomeHTTP500(t *testing.T) {
	c := cluster(t)
	h := serve(t, func(_ context.Context, req admission.Request) admission.Response {
		switch {
		case strings.HasSuffix(req.Name, "-error"):
			return admission.Errored(http.StatusInternalServerError, errors.New("the cloud broke; try again later"))
		case strings.HasSuffix(req.Name, "-denied"):
			return admission.Denied("this is not allowed; change that")
		case strings.HasSuffix(req.Name, "-panic"):
			panic("s3cret")
		}
		return admission.Denied("registered")
	})
	c.register(t, admissionregistrationv1.Ignore, h.byURL()) // and still nobody takes an answer for none
	c.awaited(t, func(err error) bool { return err != nil })
	for name, want := range map[string]string{
		"error":  "the cloud broke; try again later",
		"denied": "this is not allowed; change that",
		"panic":  "the webhook failed on an internal error; its log has the details under uid ",
	} {
		_, err := c.create(t, name, nil)
		if err == nil || !strings.Contains(err.Error(), `admission webhook "`+hookName(t)+`" denied the request: `+want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the user gets %v, want %q", name, err, want)
		}
	}
}

// The framework's webhook port has no health endpoints. Ours are open to the kubelet, which
// has no client certificate, also where webhooks want one.
func TestDefectNoHealthEndpointOnTheWebhookPort(t *testing.T) {
	c := cluster(t)
	ready := errors.New("no token yet")
	h := serve(t, func(context.Context, admission.Request) admission.Response { return admission.Allowed("") },
		func(o *server.Options) {
			o.ClientCAFile = c.clientCA
			o.Ready = func(context.Context) error { return ready }
		})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.CABundle())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	check := func(path, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Status + " " + string(body); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	check("/livez", "200 OK ok\n")
	check("/readyz", "503 Service Unavailable webhook server: cloud is not ready: no token yet\n")
	ready = nil
	check("/readyz", "200 OK ok\n")
}

// A webhook that hangs piles nothing up: beyond a bound requests are refused at once, with a
// Retry-After that clients heed, so that they get through once it goes on.
func TestMoreAtATimeThanTheWebhookTakes(t *testing.T) {
	c := cluster(t)
	const bound, more = 256, 40
	var mu sync.Mutex
	var most, now int
	release := make(chan struct{})
	h := serve(t, func(ctx context.Context, req admission.Request) admission.Response {
		if !strings.Contains(req.Name, "-many") {
			return admission.Denied("registered")
		}
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		select {
		case <-release:
		case <-ctx.Done():
		}
		mu.Lock()
		now--
		mu.Unlock()
		return admission.Allowed("")
	})
	c.register(t, admissionregistrationv1.Fail, h.byURL())
	c.awaited(t, func(err error) bool { return err != nil && strings.Contains(err.Error(), "registered") })
	var wg sync.WaitGroup
	for i := range bound + more {
		wg.Go(func() {
			if _, err := c.create(t, "many"+strings.Repeat("x", i%20)+string(rune('a'+i/20)), nil); err != nil {
				t.Error(err)
			}
		})
	}
	eventually.NoError(t, func() error {
		mu.Lock()
		in := most
		mu.Unlock()
		if n := h.outcomes(t, "busy"); n < more || in < bound { // one that is refused comes again
			return fmt.Errorf("%d requests were handled at a time, and %d refused", in, n)
		}
		return nil
	})
	close(release)
	wg.Wait()
	if most != bound {
		t.Errorf("%d requests were handled at a time, want %d", most, bound)
	}
}

// outcomes is how many requests had the outcome.
func (h *hosted) outcomes(t *testing.T, outcome string) int {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "isthmus_webhook_request_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == outcome {
				return int(m.GetHistogram().GetSampleCount()) //nolint:gosec // some hundreds
			}
		}
	}
	return 0
}

// TestDefectNoGracefulDrain: while replicas are restarted one after the other, the API server
// loses no request, although the policy is Fail and it keeps its connections.
func TestDefectNoGracefulDrain(t *testing.T) {
	c := cluster(t)
	b := newBalancer(t)
	first := b.add(t)
	b.add(t)
	c.register(t, admissionregistrationv1.Fail, first.through(b))
	c.awaited(t, func(err error) bool { return err != nil && strings.Contains(err.Error(), "registered") })

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	created := 0
	wg.Go(func() { // 50 creates a second
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ; ; created++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				name := "load-" + time.Now().Format("150405.000000000")
				wg.Go(func() {
					if _, err := c.create(t, name, nil); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
	})
	for range 3 {
		old := b.oldest()
		b.add(t)
		old.stop() // drains; the API server's connection is this one's, mostly
		b.remove(old)
	}
	stop()
	wg.Wait()
	t.Logf("%d creates over %d connections", created, b.connections())
	if created < 30 || b.connections() > created/4 {
		t.Errorf("%d creates over %d connections: this shows nothing about connections that are kept", created, b.connections())
	}
}
