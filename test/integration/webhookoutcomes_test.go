package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/serving"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// hook is a webhook with a defect, served as ours are.
type hook struct {
	t       *testing.T
	url     string
	client  *http.Client
	metrics http.Handler
}

// serve serves h until the test ends.
func serve(t *testing.T, h admission.HandlerFunc) *hook {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(serving.BuildInfo())
	o := server.NewOptions()
	o.Certs, o.Metrics, o.Listener = certstest.Source(t, t.TempDir()), registry, listener
	o.Clock = clocktesting.NewFakeClock(time.Now()) // no body is late, however busy the machine
	s, err := server.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	s.Register("test", "/test", h)
	ctx, stop := context.WithCancel(context.Background()) // it ends in the cleanup
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // HTTP/1.1: a connection of HTTP/2 holds requests back before it knows how many at a time there may be
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &hook{t, "https://" + listener.Addr().String() + "/test", &http.Client{Transport: transport, Timeout: 5 * time.Minute}, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
}

// ask asks the webhook as the API server does.
func (h *hook) ask(timeout time.Duration) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"pv"}}`
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, fmt.Sprintf("%s?timeout=%s", h.url, timeout), strings.NewReader(review))
	if err != nil {
		h.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	if err != nil {
		h.t.Error(err)
	}
}

// scrape reads the metrics as they are served.
func (h *hook) scrape() scrape {
	w := httptest.NewRecorder()
	h.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return scraped(h.t, w.Body.String())
}

// TestEachOutcomeOfAWebhookThatFails brings the outcomes about that no cloud brings about with the real binary, and has Prometheus judge
// what the server's metrics say then.
func TestEachOutcomeOfAWebhookThatFails(t *testing.T) {
	for outcome, asks := range map[string]int{"panic": 1, "timeout": 1, "busy": 300} { // more than are taken at a time
		t.Run(outcome, func(t *testing.T) {
			finish := make(chan struct{})
			h := serve(t, func(ctx context.Context, _ admission.Request) admission.Response {
				switch outcome {
				case "panic":
					panic("on purpose")
				case "timeout":
					<-ctx.Done()
					return admission.Errored(http.StatusInternalServerError, ctx.Err())
				}
				<-finish
				return admission.Allowed("")
			})
			timeout := 4 * time.Minute
			if outcome == "timeout" {
				timeout = 100 * time.Millisecond
			}
			before, now := h.scrape(), scrape{}
			var all sync.WaitGroup
			for range asks {
				all.Go(func() { h.ask(timeout) })
			}
			eventually.True(t, "a request has the outcome", func() bool {
				now = h.scrape()
				return grew("isthmus_webhook_request_duration_seconds_count", fmt.Sprintf("outcome=%q", outcome))(before, now)
			})
			close(finish)
			all.Wait()
			promtool(t, before, before, true, firing(nil, nil))
			promtool(t, before, now, true, firing([]string{"IsthmusWebhookFailing"}, nil))
		})
	}
}
