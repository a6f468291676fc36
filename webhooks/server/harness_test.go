package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/webhooks/test"

// running is a server with one webhook at path.
type running struct {
	*server.Server
	url     string
	ca      *certstest.CA
	certDir string
	metrics *prometheus.Registry
	// stop asks the server to end; done gives what Start returned.
	stop context.CancelFunc
	done chan error
}

// start starts a server for h on a free port of loopback.
func start(t *testing.T, h admission.HandlerFunc, change ...func(*server.Options)) *running {
	t.Helper()
	return startIn(t, context.Background(), h, change...)
}

// startIn is start with a context, whose logger counts.
func startIn(t *testing.T, ctx context.Context, h admission.HandlerFunc, change ...func(*server.Options)) *running {
	t.Helper()
	r := &running{ca: certstest.NewCA(t), certDir: t.TempDir(), metrics: prometheus.NewRegistry(), done: make(chan error, 1)}
	o := server.NewOptions()
	r.ca.WriteDir(t, r.certDir)
	source, err := certs.LoadFiles(t.Context(), certs.FilesOptions{Dir: r.certDir})
	if err != nil {
		t.Fatal(err)
	}
	o.Certs, o.Metrics, o.Listener = source, r.metrics, listen(t)
	r.url = "https://" + o.Listener.Addr().String()
	for _, c := range change {
		c(o)
	}
	if r.Server, err = server.New(*o); err != nil {
		t.Fatal(err)
	}
	r.Register("test", path, h)
	ctx, cancel := context.WithCancel(ctx)
	r.stop = cancel
	go func() {
		r.done <- r.Start(ctx)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Errorf("server ended with %v", err)
		}
	})
	eventually.NoError(t, func() error {
		if r.Addr() == nil {
			return fmt.Errorf("not listening")
		}
		return nil
	})
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client returns a client that trusts the server's CA only. It is closed with the test.
func (r *running) client(t *testing.T, change ...func(*http.Transport)) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.CABundle()) {
		t.Fatal("the CA bundle has no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "isthmus-webhook.kube-system.svc"}, ForceAttemptHTTP2: true}
	for _, c := range change {
		c(tr)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 5 * time.Minute} // which only a hang takes
}

// post sends a body as the API server does and returns the review that comes back.
func (r *running) post(t *testing.T, c *http.Client, query string, body []byte) (*admissionv1.AdmissionReview, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path+query, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return do(t, c, req)
}

func do(t *testing.T, c *http.Client, req *http.Request) (*admissionv1.AdmissionReview, int) {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	review, err := server.Answered(data)
	if err != nil {
		t.Fatal(err)
	}
	return review, resp.StatusCode
}

// get returns a plain answer.
func get(t *testing.T, c *http.Client, url string) (string, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(data), resp.StatusCode
}

const goodReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","operation":"CREATE","name":"pv"}}`

func allow(context.Context, admission.Request) admission.Response { return admission.Allowed("") }

// value returns a metric's value, a histogram's number of observations, of the series that
// has a label of this value; 0 if there is none.
func (r *running) value(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

// checkNew checks that no server can be made of o, for that reason; empty for none.
func checkNew(t *testing.T, o *server.Options, want string) {
	t.Helper()
	o.Certs, o.Metrics = certstest.Source(t, t.TempDir()), prometheus.NewRegistry()
	_, err := server.New(*o)
	if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}
