package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// from makes a client have an address of its own on loopback.
func from(address string) func(*http.Transport) {
	return func(tr *http.Transport) {
		tr.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
	}
}

// A client that has all slots gives up as many as it takes for others, whether it is slow to
// send or the webhook to decide; and is told so.
func TestCrowdGivesWay(t *testing.T) {
	const bound, reserved, tooMany = 256, 32, 44
	for name, unread := range map[string]bool{"slow to send": true, "slow to decide": false} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(ctx context.Context, req admission.Request) admission.Response {
				if req.Name != "pv" {
					return admission.Allowed("")
				}
				<-ctx.Done()
				return admission.Denied("too late")
			}, func(o *server.Options) { o.Clock = clocktesting.NewFakeClock(time.Now()) }) // no body is late, however long all this takes
			crowd := [2]*http.Client{r.client(t, from("127.0.0.2")), r.client(t, from("127.0.0.2"))} // a connection has 100 requests at most
			other := r.client(t, from("127.0.0.3"))
			answers := make(chan *admissionv1.AdmissionReview, bound+tooMany)
			held, ctx := &sync.WaitGroup{}, t.Context()
			unheld, cancel := context.WithCancel(ctx)
			ask := func(c *http.Client, answers chan<- *admissionv1.AdmissionReview) {
				held.Go(func() {
					var body io.Reader = strings.NewReader(goodReview)
					if unread {
						body = unended(t)
					}
					req, err := http.NewRequestWithContext(unheld, http.MethodPost, r.url+path+"?timeout=30s", body)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Content-Type", "application/json")
					req.ContentLength = int64(len(goodReview))
					if resp, err := c.Do(req); err == nil {
						data, err := io.ReadAll(resp.Body)
						_ = resp.Body.Close()
						if review, wrong := server.Answered(data); err == nil && wrong == nil {
							answers <- review
						}
					}
				})
			}
			for i := range bound + tooMany {
				ask(crowd[i%2], answers)
			}
			eventually.NoError(t, func() error {
				const took = "isthmus_webhook_request_duration_seconds"
				n, ended := r.value(t, "isthmus_webhook_requests_in_flight", "test"), r.value(t, took, "busy")+r.value(t, took, "timeout")
				if n != bound || ended != tooMany {
					return fmt.Errorf("%v requests in flight, %v were too many", n, ended)
				}
				return nil
			})
			for range tooMany {
				<-answers
			}
			small := r.client(t, from("127.0.0.4"))
			for range reserved { // what is there for clients who hold little
				ask(small, make(chan *admissionv1.AdmissionReview, 1))
			}
			eventually.NoError(t, func() error {
				if n := r.value(t, "isthmus_webhook_requests_in_flight", "test"); n != bound+reserved {
					return fmt.Errorf("%v requests in flight", n)
				}
				return nil
			})
			for range 3 {
				review, _ := r.post(t, other, "?timeout=30s", []byte(strings.Replace(goodReview, `"pv"`, `"other"`, 1)))
				if !review.Response.Allowed {
					t.Errorf("refused for what others hold: %+v", review.Response.Result)
				}
			}
			given := <-answers
			resp := given.Response
			late := unread && resp.Result.Code == http.StatusGatewayTimeout && strings.Contains(resp.Result.Message, "did not arrive in time") // after a second
			greedy := resp.Result.Code == http.StatusTooManyRequests && strings.Contains(resp.Result.Message, "most of it from this client")
			if resp.Allowed || resp.UID != "u1" || !late && !greedy {
				t.Errorf("who gave way is told %+v", resp)
			}
			cancel()
			held.Wait()
			if n := len(answers); n > 2 {
				t.Errorf("%d more gave way to three", n)
			}
		})
	}
}

// unended is a body whose last byte does not come.
func unended(t *testing.T) io.Reader {
	t.Helper()
	body, rest := io.Pipe()
	go func() { _, _ = io.WriteString(rest, goodReview[:len(goodReview)-1]) }() // fails when the request ends
	t.Cleanup(func() { _ = body.Close() })
	return body
}

// A body that does not come in time is answered in time, under its uid.
func TestBodyTooLate(t *testing.T) {
	for name, http1 := range map[string]bool{"HTTP/2": false, "HTTP/1.1": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, allow, func(o *server.Options) { o.DisableHTTP2 = http1 })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path+"?timeout=2s", unended(t))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			review, _ := do(t, r.client(t), req)
			if resp := review.Response; resp.Allowed || resp.UID != "u1" || resp.Result.Code != http.StatusGatewayTimeout {
				t.Errorf("%+v", resp)
			}
		})
	}
}

// A body that says to be too large is not awaited, and nothing is set aside for it.
func TestBodySaysTooLarge(t *testing.T) {
	r := start(t, allow)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path+"?timeout=10s", unended(t))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.ContentLength = 4 << 30
	review, _ := do(t, r.client(t), req)
	if resp := review.Response; resp.Allowed || resp.UID != "u1" || resp.Result.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", resp)
	}
}
