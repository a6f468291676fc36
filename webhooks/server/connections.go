package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxConnections is how many are open at a time, maxOfClient how many of one address: as many as
// two webhooks handle requests, each of which has a connection of its own with HTTP/1.1.
const maxConnections, maxOfClient = 1024, 512

// connections is a listener that bounds the connections that are open: in place of one too many,
// an address that has most of them loses the one that has been of no use, or not for longest. And of
// handshakes, it lets fewer compute at a time than there are CPUs, so that requests do not wait for all of them.
type connections struct {
	net.Listener
	handshakes chan struct{}

	mu   sync.Mutex
	came int64
	open map[string][]*connection // by client, in the order in which they came
	sum  int
}

func newConnections(l net.Listener) *connections {
	return &connections{Listener: l, handshakes: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), open: map[string][]*connection{}}
}

// Accept implements net.Listener.
func (s *connections) Accept() (net.Conn, error) {
	accepted, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := s.connection(accepted, addressOf(accepted.RemoteAddr().String()))
	if tooMany := s.add(c); tooMany != nil {
		_ = tooMany.Close() // its client is gone either way
	}
	return c, nil
}

func (s *connections) connection(accepted net.Conn, client string) *connection {
	closed := make(chan struct{})
	return &connection{Conn: accepted, all: s, client: client, closed: closed, end: sync.OnceFunc(func() { close(closed) })}
}

// add returns the connection that is to end for c; nil for none.
func (s *connections) add(c *connection) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.order = s.came
	s.came++
	s.open[c.client] = append(s.open[c.client], c)
	most := maxOfClient + 1
	if s.sum++; s.sum > maxConnections {
		most = 0
		for _, of := range s.open {
			most = max(most, len(of))
		}
	}
	var least *connection
	for _, of := range s.open {
		if len(of) < most {
			continue
		}
		for _, other := range of {
			if other != c && (least == nil || other.compare(least) < 0) {
				least = other
			}
		}
	}
	return least
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.open[c.client]
	i := slices.Index(of, c)
	if i < 0 {
		return
	}
	s.sum--
	if s.open[c.client] = slices.Delete(of, i, i+1); len(of) == 1 {
		delete(s.open, c.client)
	}
}

// connection is one of them, and what is known of its client.
type connection struct {
	net.Conn
	all     *connections
	client  string
	order   int64
	used    atomic.Int64 // when a review came in time last, as time.Time.UnixNano; 0 for never
	verdict atomic.Pointer[verdict]
	// shaken says that the handshake is over, computes that it is counted to those that compute.
	shaken, computes atomic.Bool
	closed           chan struct{}
	end              func() // closes closed
}

func (c *connection) compare(other *connection) int {
	return cmp.Or(cmp.Compare(c.used.Load(), other.used.Load()), cmp.Compare(c.order, other.order))
}

// use notes that a review has come. c may be nil.
func (c *connection) use() {
	if c != nil {
		c.used.Store(time.Now().UnixNano())
	}
}

// Read implements net.Conn. What follows in a handshake is to be computed, unless it is closed before its turn.
func (c *connection) Read(p []byte) (int, error) {
	c.pause()
	n, err := c.Conn.Read(p)
	if err != nil || c.shaken.Load() {
		return n, err
	}
	select {
	case c.all.handshakes <- struct{}{}:
		c.computes.Store(true)
		return n, nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	c.pause()
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.remove(c)
	c.end()
	c.shaken.Store(true)
	c.pause()
	return c.Conn.Close()
}

// pause ends what Read has begun.
func (c *connection) pause() {
	if c.computes.Swap(false) {
		<-c.all.handshakes
	}
}

// connectionKey is a context's key of its *connection.
type connectionKey struct{}

// withConnection is for http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connectionKey{}, c.NetConn())
	}
	return ctx
}

// noteState is for http.Server.ConnState, which tells of the first request.
func noteState(c net.Conn, state http.ConnState) {
	if state != http.StateActive {
		return
	}
	if c, ok := c.(*tls.Conn); ok {
		if c, ok := c.NetConn().(*connection); ok {
			c.shaken.Store(true)
			c.pause()
		}
	}
}

// connectionOf returns nil for a request without a network.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}
