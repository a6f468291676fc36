package server

import "sync"

// maxLatecomers is how many clients are known as such at most.
const maxLatecomers = 4096

// latecomers are the clients whose last body was late. What they ask for comes last, so that those
// who hold room by sending slowly, from however many addresses, do not have others wait again and
// again. One is forgotten with the next body that arrives in time or, in place of another, at random.
type latecomers struct {
	mu      sync.Mutex
	clients map[string]struct{}
}

func newLatecomers() *latecomers { return &latecomers{clients: map[string]struct{}{}} }

func (l *latecomers) has(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, late := l.clients[client]
	return late
}

func (l *latecomers) add(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.clients {
		if len(l.clients) < maxLatecomers {
			break
		}
		delete(l.clients, other)
	}
	l.clients[client] = struct{}{}
}

func (l *latecomers) remove(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, client)
}
