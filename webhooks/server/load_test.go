package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// TestBusy: what a request beyond the bound comes to is the failure policy's word, at once.
func TestBusy(t *testing.T) {
	const bound = 256
	for policy, want := range map[admissionregistrationv1.FailurePolicyType]struct {
		allowed    bool
		code       int32
		retry      int32
		message    string
		inWarnings bool
	}{
		admissionregistrationv1.Fail:   {false, 429, 1, "webhook test has 256 requests in hand, and takes no more until some are answered; try again in a moment", false},
		admissionregistrationv1.Ignore: {true, 200, 0, "webhook test did not look at this object, as it has 256 requests in hand: the cloud may be slow", true},
	} {
		t.Run(string(policy), func(t *testing.T) {
			entered, finish := make(chan struct{}, bound), make(chan struct{})
			r := start(t, func(context.Context, admission.Request) admission.Response {
				entered <- struct{}{}
				<-finish
				return admission.Allowed("")
			}, func(o *server.Options) {
				o.Clock = clocktesting.NewFakeClock(time.Now()) // no body is late, however busy the machine: latecomers get no more than half
				o.FailurePolicy = func(string) admissionregistrationv1.FailurePolicyType { return policy }
			})
			release := sync.OnceFunc(func() { close(finish) })
			defer release()
			c, answered := r.client(t), make(chan struct{}, bound)
			var wg sync.WaitGroup
			for range bound {
				wg.Go(func() {
					defer func() { answered <- struct{}{} }()
					r.post(t, c, "?timeout=30s", []byte(goodReview))
				})
			}
			for range bound {
				select {
				case <-entered:
				case <-answered:
					t.Fatal("a request was answered while the webhook holds all")
				}
			}
			review, status := r.post(t, c, "", []byte(goodReview))
			resp := review.Response
			if status != http.StatusOK || resp.Allowed != want.allowed || resp.UID != "u1" || resp.Result.Code != want.code {
				t.Errorf("HTTP %d, %+v, want %+v", status, resp, want)
			}
			if want.retry > 0 && (resp.Result.Details == nil || resp.Result.Details.RetryAfterSeconds != want.retry) {
				t.Errorf("no Retry-After: %+v", resp.Result)
			}
			if got := strings.Join(append(resp.Warnings, resp.Result.Message), ""); got != want.message || (len(resp.Warnings) > 0) != want.inWarnings {
				t.Errorf("said %q, want %q", got, want.message)
			}
			release()
			wg.Wait()
			if v := r.value(t, "isthmus_webhook_requests_in_flight", "test"); v != 0 {
				t.Errorf("%v requests in flight at the end", v)
			}
			if v := r.value(t, "isthmus_webhook_request_duration_seconds", "busy"); v != 1 {
				t.Errorf("%v busy answers counted, want 1", v)
			}
		})
	}
}

// TestNothingIsKept: slots and memory come back from each request, whatever became of it.
func TestNothingIsKept(t *testing.T) {
	r := start(t, func(_ context.Context, req admission.Request) admission.Response {
		if req.Name == "panic" {
			panic("on purpose")
		}
		return admission.Allowed("")
	})
	c := r.client(t)
	bodies := map[string]int32{
		goodReview: 200, strings.Replace(goodReview, `"name":"pv"`, `"name":"panic"`, 1): 500, goodReview[:len(goodReview)-1]: 400,
		strings.Replace(goodReview, `"pv"`, strings.Repeat("[", 100)+strings.Repeat("]", 100), 1): 413,
		goodReview + strings.Repeat(" ", 2<<20):                                                   200, // of which there is memory for a few only
	}
	for body, code := range bodies {
		for range min(257, 32<<20/len(body)) {
			if review, _ := r.post(t, c, "", []byte(body)); review.Response.Result.Code != code || review.Response.UID != "u1" {
				t.Fatalf("%.200s: %+v, want code %d", body, review.Response, code)
			}
		}
	}
}

// TestHTTP2 : requests share a connection, so many at a time as we allow.
func TestHTTP2(t *testing.T) {
	for name, disabled := range map[string]bool{"HTTP/2": false, "HTTP/1.1": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, allow, func(o *server.Options) { o.DisableHTTP2 = disabled })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/livez", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if (resp.ProtoMajor == 2) == disabled {
				t.Errorf("served with %s", resp.Proto)
			}
		})
	}
}

// TestMaxStreams: a client is told to have no more than 100 requests at a time on one connection.
func TestMaxStreams(t *testing.T) {
	r := start(t, allow)
	tr := r.client(t).Transport.(*http.Transport)
	config := tr.TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v, want settings", frame)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != 100 {
		t.Errorf("%d requests at a time on one connection (%v), want 100", n, ok)
	}
}

// TestDefectWholeResponseIsLogged: nothing of an object but its name is logged below V(5), and
// no message, as messages repeat parts of objects.
func TestDefectWholeResponseIsLogged(t *testing.T) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","operation":"CREATE","name":"pv-1","userInfo":{"username":"alice"},
		"object":{"metadata":{"annotations":{"a":"s3cret"}},"spec":{"csi":{"volumeAttributes":{"k":"s3cret"}}}},"oldObject":{"data":"s3cret"}}}`
	for level, wantMessage := range map[int]bool{4: false, 5: true} {
		ctx, log := logged(level)
		answers := []admission.Response{
			admission.Denied("the object says s3cret"), admission.Allowed("s3cret"), admission.Errored(500, errors.New("s3cret")),
			admission.PatchResponseFromRaw([]byte(`{"a":"b"}`), []byte(`{"a":"s3cret"}`)),
		}
		r := startIn(t, ctx, func(_ context.Context, req admission.Request) admission.Response {
			if !bytes.Contains(req.Object.Raw, []byte("s3cret")) || !bytes.Contains(req.OldObject.Raw, []byte("s3cret")) {
				t.Error("the webhook does not see the object")
			}
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
		c := r.client(t)
		for range len(answers) {
			r.post(t, c, "", []byte(review))
		}
		r.stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		text := log()
		if strings.Contains(text, "s3cret") != wantMessage {
			t.Errorf("V(%d) shows what it must not, or nothing at all:\n%s", level, text)
		}
		for _, want := range []string{`object="pv-1"`, `user="alice"`, `outcome="denied"`, `outcome="patched"`, `code=403`} {
			if !strings.Contains(text, want) {
				t.Errorf("V(%d) lacks %s:\n%s", level, want, text)
			}
		}
	}
}

// buffer takes a log of several goroutines.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// What is to be changed may be more than an answer has room for: then the failure policy decides.
func TestPatchTooLarge(t *testing.T) {
	for policy, allowed := range map[admissionregistrationv1.FailurePolicyType]bool{admissionregistrationv1.Ignore: true, admissionregistrationv1.Fail: false} {
		r := start(t, func(context.Context, admission.Request) admission.Response {
			return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations/x", strings.Repeat("x", 64<<10)))
		}, func(o *server.Options) {
			o.FailurePolicy = func(string) admissionregistrationv1.FailurePolicyType { return policy }
		})
		review, _ := r.post(t, r.client(t), "", []byte(goodReview))
		resp := review.Response
		if resp.Allowed != allowed || len(resp.Patch) > 0 || allowed && len(resp.Warnings) != 1 || !allowed && resp.Result.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %+v", policy, resp)
		}
	}
}
