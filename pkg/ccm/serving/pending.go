package serving

import (
	"net"
	"net/http"
	"sync"
)

// maxPending is how many requests wait to be let in at a time, maxPendingOfAddress how many of one address:
// each with a token that nobody knows waits for an answer of the API server, which gets a few hundred questions a second.
const maxPending, maxPendingOfAddress = 512, 32

// pending counts the requests that wait to be let in. Where there are too many, an address has one.
type pending struct {
	mu        sync.Mutex
	addresses map[string]int
	sum       int
}

// enter returns what ends the wait, or false if there are too many.
func (p *pending) enter(r *http.Request) (leave func(), ok bool) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.addresses[address]
	if n >= maxPendingOfAddress || n > 0 && p.sum >= maxPending {
		return nil, false
	}
	p.addresses[address] = n + 1
	p.sum++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sum--
		if p.addresses[address]--; p.addresses[address] == 0 {
			delete(p.addresses, address)
		}
	}, true
}
