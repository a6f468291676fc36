package server

import (
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
			c := &connection{Conn: server, all: all, client: "a"}
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
