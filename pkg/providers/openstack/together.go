package openstack

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// together makes one read of those that are asked for while another one is under way: who asks
// alone is answered as fast as ever, and hundreds who ask at once share two reads. What is answered
// was read after it was asked for.
type together[T any] struct {
	mu      sync.Mutex
	running bool
	next    *round[T] // collects; nil while nobody asks
}

// round is one read. out and err are valid once done is closed.
type round[T any] struct {
	keys map[string]bool
	done chan struct{}
	out  T
	err  error
}

// togetherDeadline bounds one read.
const togetherDeadline = time.Minute

// do returns what read tells of several keys, of which key is one. read runs on although those who
// have asked have gone.
func (g *together[T]) do(ctx context.Context, key string, read func(ctx context.Context, keys map[string]bool) (T, error)) (T, error) {
	g.mu.Lock()
	r := g.next
	if r == nil {
		r = &round[T]{keys: map[string]bool{}, done: make(chan struct{})}
		g.next = r
	}
	r.keys[key] = true
	if !g.running {
		g.running = true
		go g.run(context.WithoutCancel(ctx), read)
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("wait for the answer about %s: %w", key, context.Cause(ctx))
	}
}

// run reads until nobody asks.
func (g *together[T]) run(ctx context.Context, read func(context.Context, map[string]bool) (T, error)) {
	for {
		g.mu.Lock()
		r := g.next
		g.next = nil
		g.running = r != nil
		g.mu.Unlock()
		if r == nil {
			return
		}
		one, cancel := context.WithTimeout(ctx, togetherDeadline)
		r.out, r.err = read(one, r.keys)
		cancel()
		close(r.done)
	}
}
