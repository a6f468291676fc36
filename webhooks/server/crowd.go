package server

import "sync"

// maxPresent is how many requests there are at a time, of all clients: as many as two webhooks handle
// and have wait. Each takes a goroutine and what it holds of its connection, of which a client may
// have hundreds, with hundreds of requests each.
const maxPresent = 2 * (maxInFlight + reservedSlots + maxWaiting)

// crowd counts the requests that are there. Where there are too many, each client has as many of them
// as the bound divided by the clients; latecomers may only have a few, so that they keep nobody out.
type crowd struct {
	mu      sync.Mutex
	clients map[string]int
	sum     int
}

func newCrowd() *crowd { return &crowd{clients: map[string]int{}} }

// enter reports whether there is room for one more of client, who must leave in that case. It looks
// at no other request: there may be thousands of them in a second.
func (c *crowd) enter(client string, late bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, most := c.clients[client], maxPresent
	if late {
		most = maxInFlight / 2
	}
	if c.sum >= most && (late || n >= most/max(1, len(c.clients))) {
		return false
	}
	c.clients[client] = n + 1
	c.sum++
	return true
}

func (c *crowd) leave(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum--
	if c.clients[client]--; c.clients[client] == 0 {
		delete(c.clients, client)
	}
}
