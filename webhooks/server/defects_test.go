package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// TestDefectBodyReadErrorsAreIgnored: of a body whose connection breaks, what did come is not
// taken for all, also where it is whole in itself.
func TestDefectBodyReadErrorsAreIgnored(t *testing.T) {
	var asked atomic.Int64
	r := start(t, func(context.Context, admission.Request) admission.Response {
		asked.Add(1)
		return admission.Allowed("")
	})
	for name, head := range map[string]string{
		"length":  "Content-Length: 10000\r\n\r\n" + goodReview,
		"chunked": "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(goodReview), goodReview),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // on loopback
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+head); err != nil {
				t.Fatal(err)
			}
			if err := conn.CloseWrite(); err != nil { // it breaks on the way there; answers still come back
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if want := "read the request's body: unexpected EOF"; !bytes.Contains(answer, []byte(want)) || !bytes.Contains(answer, []byte(`"code":400`)) {
				t.Errorf("answer %q, want code 400 and %q", answer, want)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the webhook was asked about %d of the broken requests", n)
	}
	if v := r.value(t, "isthmus_webhook_request_duration_seconds", "invalid"); v != 2 {
		t.Errorf("%v counted as invalid, want 2", v)
	}
}

// TestDefectLowestBucketIsAQuarterSecond: latencies of milliseconds can be told apart.
func TestDefectLowestBucketIsAQuarterSecond(t *testing.T) {
	r := start(t, allow)
	r.post(t, r.client(t), "", []byte(goodReview))
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "isthmus_webhook_request_duration_seconds" {
			if lowest := f.GetMetric()[0].GetHistogram().GetBucket()[0].GetUpperBound(); lowest != 0.001 {
				t.Errorf("lowest bucket is %v s, want 1 ms", lowest)
			}
			return
		}
	}
	t.Error("there is no histogram of requests")
}

// logged returns a context whose logger writes to what text returns.
func logged(verbosity int) (ctx context.Context, text func() string) {
	out := &buffer{}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(out)))
	return klog.NewContext(context.Background(), logger), out.String
}

// With failurePolicy Ignore, a server that is never asked, or refuses the API server itself,
// looks like one that agrees to everything: the log says so at V(0), but not for each request.
func TestMisconfigurationIsLogged(t *testing.T) {
	ca, now := newAuthority(t), clocktesting.NewFakeClock(time.Now())
	ctx, text := logged(0)
	r := startIn(t, ctx, allow, func(o *server.Options) { o.ClientCAFile, o.Clock = ca.file(t), now })
	misconfigured := func() {
		t.Helper()
		c := r.client(t, func(tr *http.Transport) { tr.DisableKeepAlives = true })
		for range 3 {
			if status, _ := r.ask(t, c); status != http.StatusUnauthorized {
				t.Fatalf("HTTP %d without a certificate", status)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mutate", strings.NewReader(goodReview))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if _, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS12}); err == nil {
				t.Fatal("trusted without its CA")
			}
		}
	}
	check := func(want int) {
		t.Helper()
		eventually.NoError(t, func() error {
			for _, line := range []string{`reason="no_certificate"`, `no webhook is served at '/mutate'`, "Webhook client ended the TLS handshake"} {
				if n := strings.Count(text(), line); n != want {
					return fmt.Errorf("%s stands %d times in the log, want %d:\n%s", line, n, want, text())
				}
			}
			return nil
		})
	}
	misconfigured()
	check(1)
	misconfigured()
	now.Step(11 * time.Minute)
	misconfigured()
	check(2)
}

// What a panic says may repeat parts of the object; Go's own panics do not.
func TestPanicIsLogged(t *testing.T) {
	for level, shown := range map[int]bool{4: false, 5: true} {
		ctx, text := logged(level)
		r := startIn(t, ctx, func(_ context.Context, req admission.Request) admission.Response {
			if req.Name == "pv" {
				panic("s3cret")
			}
			return *(*admission.Response)(nil)
		})
		c := r.client(t)
		r.post(t, c, "", []byte(goodReview))
		r.post(t, c, "", []byte(strings.Replace(goodReview, `"pv"`, `"nil"`, 1)))
		if strings.Contains(text(), "s3cret") != shown || strings.Contains(text(), "a value of type string") == shown {
			t.Errorf("V(%d) shows what it must not, or nothing at all:\n%s", level, text())
		}
		if !strings.Contains(text(), "invalid memory address or nil pointer dereference") || !strings.Contains(text(), "defects_test.go") {
			t.Errorf("V(%d) does not say what Go panicked about, and where:\n%s", level, text())
		}
	}
}
