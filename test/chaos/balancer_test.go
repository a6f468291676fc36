package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryac "k8s.io/client-go/applyconfigurations/discovery/v1"
)

const (
	// probePeriod is how often the balancer asks a replica whether it is ready. A kubelet asks
	// every few seconds, but a Pod that ends is taken from the endpoints without being asked.
	probePeriod = 300 * time.Millisecond
	// propagation is how long a change of readiness takes to reach the balancer's decisions, as
	// it takes from the EndpointSlice to all kube-proxies.
	propagation = time.Second
)

// balancer does what a Service does with kube-proxy: a new connection goes to any replica
// that is ready, as far as is known by then; a connection that stands stays with its
// replica, ready or not; without a replica, connections are refused. It also publishes the
// Service's EndpointSlices, one a replica, which is the EndpointSlice controller's work.
type balancer struct {
	wg  sync.WaitGroup
	ctx context.Context // ends with the test: its connections do not outlive it

	mu      sync.Mutex
	ready   []string // addresses of webhook servers
	opened  int      // connections, ever
	refused int
	heard   map[string]time.Time // when a client last sent a request to a replica
}

// newBalancer is the Service at address, and follows the replicas, until the test ends.
func (c *cluster) newBalancer(address string, replicas ...*replica) *balancer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{ctx: ctx, heard: map[string]time.Time{}}
	for _, r := range replicas {
		b.wg.Go(func() { b.follow(ctx, c, r) })
	}
	stop := theShared.network.serve(address, b)
	c.t.Cleanup(func() {
		stop()
		cancel()
		b.wg.Wait()
	})
	return b
}

// endpoints is how many replicas get new connections.
func (b *balancer) endpoints() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ready)
}

// connections is how many connections were ever asked for.
func (b *balancer) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

func (b *balancer) set(address string, ready bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = slices.DeleteFunc(b.ready, func(a string) bool { return a == address })
	if ready {
		b.ready = append(b.ready, address)
	}
}

// follow takes notice of r's readiness, late.
func (b *balancer) follow(ctx context.Context, c *cluster, r *replica) {
	client := probeClient()
	defer client.CloseIdleConnections()
	was := false
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		if now := r.probe(ctx, client) == nil; now != was {
			if err := c.publish(ctx, r, now); err != nil {
				if ctx.Err() == nil {
					c.t.Logf("publish the endpoint of %s, later once more: %v", r.name, err)
				}
			} else {
				was = now
				b.wg.Go(func() {
					select {
					case <-ctx.Done():
					case <-time.After(propagation):
						b.set(r.webhook, now)
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// publish writes r's EndpointSlice. Its address is one that the API server takes, which the
// replica's own, on loopback, is not.
func (c *cluster) publish(ctx context.Context, r *replica, ready bool) error {
	_, err := c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Apply(ctx,
		discoveryac.EndpointSlice("isthmus-webhook-"+r.name, metav1.NamespaceSystem).
			WithLabels(map[string]string{discoveryv1.LabelServiceName: "isthmus-webhook"}).
			WithAddressType(discoveryv1.AddressTypeIPv4).
			WithEndpoints(discoveryac.Endpoint().WithAddresses("192.0.2.1").WithConditions(discoveryac.EndpointConditions().WithReady(ready))),
		metav1.ApplyOptions{FieldManager: "balancer"})
	return err
}

// probeClient asks as the kubelet does: a new connection each time, and no certificate checked.
func probeClient() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet
	}}
}

func (b *balancer) choose() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	if len(b.ready) == 0 {
		return ""
	}
	return b.ready[rand.IntN(len(b.ready))]
}

// alertSize is more than the TLS alert has with which a client ends its connection.
const alertSize = 64

// halfCloser is a connection of which one direction can be ended.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// forward joins client with a replica until one of them ends. It returns an error when no
// replica could be reached, and calls reached before it forwards anything.
func (b *balancer) forward(ctx context.Context, client halfCloser, reached func() error) error {
	b.wg.Add(1)
	defer b.wg.Done()
	address, conn, err := b.choose(), net.Conn(nil), errors.New("the Service has no endpoints")
	if address != "" {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		return err
	}
	server := conn.(*net.TCPConn)
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(b.ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	if err := reached(); err != nil {
		return err
	}
	var pair sync.WaitGroup
	pair.Go(func() {
		pipe(server, client, func(n int) {
			if n > alertSize {
				b.hear(address)
			}
		})
	})
	pair.Go(func() { pipe(client, server, func(int) {}) })
	pair.Wait()
	return nil
}

func (b *balancer) hear(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard[address] = time.Now()
}

// lastHeard is when a client last sent a request, or a handshake, to r.
func (b *balancer) lastHeard(r *replica) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard[r.webhook]
}

// pipe copies until from's end, which to then sees in the same way.
func pipe(to, from halfCloser, passed func(n int)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			passed(n)
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			_ = to.CloseWrite()
			return
		}
		_, _ = to.Close(), from.Close()
		return
	}
}
