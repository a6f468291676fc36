package server

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// A handshake computes from what it reads on until it writes, reads again or ends, and so many at a
// time and no more; what is over is not held up.
func TestHandshakesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &connections{handshakes: make(chan struct{}, 1), open: map[string][]*connection{}}
		pair := func() (*connection, net.Conn) {
			client, server := net.Pipe()
			c := all.connection(server, "a")
			all.add(c)
			return c, client
		}
		var read []string
		begin := func(name string, c *connection, client net.Conn) {
			go func() { _, _ = client.Write([]byte("hello")) }()
			go func() {
				if _, err := c.Read(make([]byte, 5)); err == nil {
					read = append(read, name)
				}
			}()
			synctest.Wait()
		}
		first, client1 := pair()
		second, client2 := pair()
		third, client3 := pair()
		over, client4 := pair()
		over.shaken.Store(true)
		begin("first", first, client1)
		begin("second", second, client2)
		begin("over", over, client4)
		go func() { _, _ = client1.Read(make([]byte, 5)) }()
		if _, err := first.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin("third", third, client3)
		_ = second.Close()
		synctest.Wait()
		if len(read) != 4 || read[0] != "first" || read[1] != "over" || read[2] != "second" || read[3] != "third" {
			t.Errorf("in this order: %v", read)
		}
		for _, c := range []*connection{first, third, over} {
			_ = c.Close()
		}
		if len(all.handshakes) != 0 || len(all.open) != 0 || all.sum != 0 {
			t.Errorf("%d compute, %d are open", len(all.handshakes), all.sum)
		}
	})
}

// Who is closed while it waits to compute waits no longer: else there would be more such than connections that are open.
func TestClosedHandshakeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &connections{handshakes: make(chan struct{}, 1), open: map[string][]*connection{}}
		ended := map[string]error{}
		var conns []*connection
		for _, name := range []string{"first", "second"} {
			client, server := net.Pipe()
			c := all.connection(server, name)
			conns = append(conns, c)
			go func() { _, _ = client.Write([]byte("hello")) }()
			go func() { _, ended[name] = c.Read(make([]byte, 5)) }()
			synctest.Wait()
		}
		if _, over := ended["second"]; over || len(ended) != 1 {
			t.Fatalf("ended: %v, want the first alone", ended)
		}
		_ = conns[1].Close()
		synctest.Wait()
		if err := ended["second"]; !errors.Is(err, net.ErrClosed) || len(all.handshakes) != 1 {
			t.Errorf("the closed one ended with %v, %d compute", err, len(all.handshakes))
		}
		_ = conns[0].Close()
		_ = conns[0].Close()
		if len(all.handshakes) != 0 {
			t.Errorf("%d compute", len(all.handshakes))
		}
	})
}
