package openstack

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// crowdLeast and crowdMost bound how many requests of a kind are under way at a time.
	crowdLeast, crowdMost = 2, 100
	// crowdFloor is what a request may always take: below that differences mean nothing.
	crowdFloor = 200 * time.Millisecond
	// crowdMemory is for how long what was learned of the service holds.
	crowdMemory = time.Minute
)

// crowd bounds how many requests of a kind are under way at a time, by what a service can do at a
// time: as long as they take hardly longer than alone, more are let in, and fewer once they take far
// longer. An Octavia that does one after the other would only have the last of a hundred wait until
// its client has gone, and not know any more what became of it. Who comes first goes first.
type crowd struct {
	mu      sync.Mutex
	limit   float64 // 0 is crowdLeast
	in      int
	alone   time.Duration // about what a request takes that has the service for itself; 0 is unknown
	left    time.Time     // when the last one ended
	waiting []chan struct{}
}

// do calls f when there is room for it.
func (c *crowd) do(ctx context.Context, f func() error) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	began := time.Now()
	err := f()
	c.leave(time.Since(began))
	return err
}

func (c *crowd) enter(ctx context.Context) error {
	c.mu.Lock()
	if c.limit == 0 || c.in == 0 && time.Since(c.left) > crowdMemory {
		c.limit, c.alone = crowdLeast, 0
	}
	if c.in < int(c.limit) && len(c.waiting) == 0 {
		c.in++
		c.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	c.waiting = append(c.waiting, turn)
	c.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.waiting {
		if other == turn {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return fmt.Errorf("wait for requests before this one: %w", context.Cause(ctx))
		}
	}
	c.in-- // its turn had come
	c.admit()
	return fmt.Errorf("wait for requests before this one: %w", context.Cause(ctx))
}

// leave ends a request that has taken so long.
func (c *crowd) leave(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in--
	if c.alone == 0 || took < c.alone {
		c.alone = took
	}
	c.left = time.Now()
	switch alone := max(c.alone, crowdFloor); {
	case took < alone*3/2:
		c.limit = min(c.limit+1, crowdMost)
	case took > alone*3:
		c.limit = max(c.limit*3/4, crowdLeast)
	}
	c.admit()
}

// admit lets those in for whom there is room.
func (c *crowd) admit() {
	for len(c.waiting) > 0 && c.in < int(c.limit) {
		c.in++
		close(c.waiting[0])
		c.waiting = c.waiting[1:]
	}
}
