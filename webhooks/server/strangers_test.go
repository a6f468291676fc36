package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// stranger is the address of one of many clients.
func stranger(i int) string { return fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250) }

// Strangers at more addresses than there are slots, who all send slowly, and again when they are
// turned out, leave the API server's requests room, also for several at a time.
func TestStrangersWithSlowBodies(t *testing.T) {
	const strangers, slots, atATime, requests = 320, 256, 8, 400
	now := clocktesting.NewFakeClock(time.Now()) // stands still but for the strangers: however busy the machine, no other body is late
	r := start(t, allow, func(o *server.Options) { o.Clock = now })
	ctx, cancel := context.WithCancel(t.Context())
	var all, api sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range strangers {
		c := r.client(t, from(stranger(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				body, rest := io.Pipe()
				go func() { _, _ = io.WriteString(rest, goodReview[:len(goodReview)-1]) }() // fails when the request ends
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path+"?timeout=30s", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.ContentLength = int64(len(goodReview))
				if resp, err := c.Do(req); err == nil {
					_ = resp.Body.Close()
				}
				_ = body.Close()
			}
		})
	}
	eventually.NoError(t, func() error {
		if n := r.value(t, "isthmus_webhook_requests_in_flight", "test"); n < slots {
			return fmt.Errorf("%v requests in flight", n)
		}
		return nil
	})
	now.Step(time.Second) // which is what a body has: those of the strangers that are in are late
	c := r.client(t)
	var worst, refused atomic.Int64
	for range atATime {
		api.Go(func() {
			for i := 0; i < requests/atATime && refused.Load() == 0; i++ {
				begun := time.Now()
				review, _ := r.post(t, c, "?timeout=30s", []byte(goodReview))
				if took := int64(time.Since(begun)); took > worst.Load() {
					worst.Store(took)
				}
				if !review.Response.Allowed {
					refused.Add(1)
				}
			}
		})
	}
	api.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d of %d requests were refused", n, requests)
	}
	t.Logf("the slowest of %d requests, %d at a time, took %s", requests, atATime, time.Duration(worst.Load()))
}

// Connections that nothing is asked on are closed, in the order in which they came, when there are
// too many: neither the API server's is, nor is a new one of its kept away.
func TestStrangersWithIdleConnections(t *testing.T) {
	const most = 1024
	for name, addresses := range map[string]int{"of many addresses": most + 100, "of one address": 1} {
		t.Run(name, func(t *testing.T) {
			r := start(t, allow)
			apiServer := r.client(t)
			r.post(t, apiServer, "", []byte(goodReview))
			var closed, last atomic.Int64
			var conns []net.Conn
			for i := range most + 100 {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(stranger(i % addresses))}}
				conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "https://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				conns = append(conns, conn)
				go func() {
					_, err := conn.Read(make([]byte, 1))
					if err != nil && !errors.Is(err, net.ErrClosed) {
						closed.Add(1)
						for n := last.Load(); n < int64(i) && !last.CompareAndSwap(n, int64(i)); n = last.Load() {
						}
					}
				}()
			}
			tooMany := int64(len(conns) + 1 - most)
			if addresses == 1 {
				tooMany = int64(len(conns) - most/2)
			}
			eventually.NoError(t, func() error {
				if n := closed.Load(); n < tooMany {
					return fmt.Errorf("%d of %d connections were closed, want %d", n, len(conns), tooMany)
				}
				return nil
			})
			if last.Load() >= tooMany {
				t.Errorf("connection %d was closed, the first %d came before it", last.Load(), tooMany)
			}
			askReused(t, r, apiServer)
			if review, _ := r.post(t, r.client(t), "", []byte(goodReview)); !review.Response.Allowed {
				t.Errorf("no new connection has room: %+v", review.Response)
			}
		})
	}
}

// askReused asks on a connection that there is.
func askReused(t *testing.T, r *running, c *http.Client) {
	t.Helper()
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(goodReview))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if review, _ := do(t, c, req); !review.Response.Allowed || !reused {
		t.Errorf("%+v, on the same connection: %v", review.Response, reused)
	}
}

// Who begins no handshake does not keep its connection.
func TestHandshakeEnds(t *testing.T) {
	r := start(t, allow)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a server that speaks first")
	}
}
