package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// present is how many requests may be there at a time, of all clients.
const present = 832

// Who opens thousands of requests on a few connections, and sends no bodies, has as many at a time as
// there may be, is told at once that the others are too many, and keeps nobody else out.
func TestThousandsOfRequestsOfOneClient(t *testing.T) {
	const connections, each, requests = 40, 60, 20
	r := start(t, allow)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range connections {
		c := r.client(t, from("127.1.0.1"))
		r.post(t, c, "", []byte(goodReview)) // so that there is a connection, which all use
		for range each {
			all.Go(func() {
				body, rest := io.Pipe() // of which nothing comes
				defer func() { _ = rest.Close() }()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path+"?timeout=30s", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.ContentLength = 3 << 20
				if resp, err := c.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			})
		}
	}
	const inFlight, took = "isthmus_webhook_requests_in_flight", "isthmus_webhook_request_duration_seconds"
	most := 0.0
	eventually.NoError(t, func() error {
		most = max(most, r.value(t, inFlight, "test"))
		if n := r.value(t, took, "busy"); n < connections*each-2*present {
			return fmt.Errorf("%v were told that they are too many", n)
		}
		return nil
	})
	c := r.client(t)
	for range requests {
		if review, _ := r.post(t, c, "?timeout=30s", []byte(goodReview)); !review.Response.Allowed {
			t.Errorf("another client is refused: %+v", review.Response.Result)
		}
		most = max(most, r.value(t, inFlight, "test"))
	}
	if most > present {
		t.Errorf("%v requests were there at a time, want at most %d", most, present)
	}
}

// Of headers, what an API server sends has room, and no more than a few times that.
func TestHeadersAreBounded(t *testing.T) {
	r := start(t, allow)
	for size, want := range map[int]bool{8 << 10: true, 32 << 10: false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, bytes.NewReader([]byte(goodReview)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Baggage", strings.Repeat("x", size))
		resp, err := r.client(t).Do(req)
		if err != nil {
			if want {
				t.Error(err)
			}
			continue
		}
		_ = resp.Body.Close()
		if (resp.StatusCode == http.StatusOK) != want {
			t.Errorf("%d bytes of headers: %s", size, resp.Status)
		}
	}
}
