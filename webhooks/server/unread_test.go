package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
)

// Of a client that reads no answers, no more pile up than so many, with what goes with them; and others have room.
func TestAnswersUnread(t *testing.T) {
	const most, connections, streams = 1024 + 64, 15, 100
	r := start(t, allow)
	ask := func(c *http.Client) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(goodReview))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := c.Do(req); err == nil {
			t.Cleanup(func() { _ = resp.Body.Close() })
		}
	}
	var all sync.WaitGroup
	for range connections {
		deaf := r.client(t, from("127.0.0.2"), func(tr *http.Transport) { tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1} })
		all.Go(func() {
			for range streams { // one after the other: they pile up as answers
				ask(deaf)
			}
		})
	}
	all.Wait() // each has the head of an answer, or lost its place: what a client waits for no more may be about to end
	if n := handlers(t); n > most+connections || n < most/2 {
		t.Errorf("%d requests are not over, want at most %d and more than half of it", n, most)
	}
	if review, _ := r.post(t, r.client(t, from("127.0.0.3")), "", []byte(goodReview)); !review.Response.Allowed {
		t.Errorf("refused for what others do not read: %+v", review.Response)
	}
}

// handlers counts those of HTTP/2 requests that have not ended.
func handlers(t *testing.T) int {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Fatal(err)
	}
	n, sum := 0, 0
	_, all, _ := strings.Cut(stacks.String(), "\n") // a title
	for block := range strings.SplitSeq(all, "\n\n") {
		if _, err := fmt.Sscanf(block, "%d @", &n); err == nil && strings.Contains(block, "http2serverConn).runHandler") {
			sum += n
		}
	}
	return sum
}
