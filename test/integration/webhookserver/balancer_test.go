package webhookserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// balancer does what a Service does: a new connection goes to a replica that is ready, and
// stays there.
type balancer struct {
	listener net.Listener
	source   certs.Source

	mu       sync.Mutex
	replicas []*hosted
	accepted int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, source: certstest.Source(t, t.TempDir())}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { b.carry(conn) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range b.replicas {
			r.stop()
		}
		wg.Wait()
	})
	return b
}

func (b *balancer) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	to := b.pick()
	if to == nil {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to.Addr().String())
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, from)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(from, conn)
	_ = from.(*net.TCPConn).CloseWrite()
	_ = from.SetReadDeadline(time.Now().Add(time.Second))
	<-done
	_ = conn.Close()
}

// pick returns the oldest replica that is ready.
func (b *balancer) pick() *hosted {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted++
	for _, r := range b.replicas {
		if r.Ready((&http.Request{}).WithContext(context.Background())) == nil {
			return r
		}
	}
	return nil
}

func (b *balancer) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted
}

func (b *balancer) oldest() *hosted {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replicas[0]
}

// add starts a replica.
func (b *balancer) add(t *testing.T) *hosted {
	t.Helper()
	h := serve(t, func(_ context.Context, req admission.Request) admission.Response {
		if strings.Contains(req.Name, "-wait-") {
			return admission.Denied("registered")
		}
		time.Sleep(5 * time.Millisecond) // so that requests are in flight at the end
		return admission.Allowed("")
	}, func(o *server.Options) {
		o.Certs, o.ShutdownDelay = b.source, 300*time.Millisecond
	})
	b.mu.Lock()
	b.replicas = append(b.replicas, h)
	b.mu.Unlock()
	return h
}

func (b *balancer) remove(h *hosted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range b.replicas {
		if r == h {
			b.replicas = append(b.replicas[:i:i], b.replicas[i+1:]...)
			return
		}
	}
}

// through is the client configuration by the balancer's address.
func (h *hosted) through(b *balancer) admissionregistrationv1.WebhookClientConfig {
	url := "https://" + b.listener.Addr().String() + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: h.CABundle()}
}
