package query

import (
	"sync"
	"time"
)

// Buckets throttle requests: each key has a bucket of tokens that fills with time, and a request takes one. Its zero value
// throttles nothing. All methods may be called concurrently.
type Buckets struct {
	mu    sync.Mutex
	sizes map[string]size
	state map[[2]string]*bucket
}

type size struct {
	capacity  int
	perSecond float64
}

type bucket struct {
	tokens float64
	at     time.Time
}

// Set gives an operation's buckets a capacity and a rate of tokens per second; capacity 0 ends the throttling.
// Buckets are full at first.
func (b *Buckets) Set(operation string, capacity int, perSecond float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes == nil {
		b.sizes, b.state = map[string]size{}, map[[2]string]*bucket{}
	}
	b.sizes[operation] = size{capacity, perSecond}
	if capacity == 0 {
		delete(b.sizes, operation)
	}
	for key := range b.state {
		if key[0] == operation {
			delete(b.state, key)
		}
	}
}

// Take takes a token from the bucket that an owner has for an operation; false when it is empty.
func (b *Buckets) Take(operation, owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, throttled := b.sizes[operation]
	if !throttled {
		return true
	}
	now, key := time.Now(), [2]string{operation, owner}
	state := b.state[key]
	if state == nil {
		state = &bucket{tokens: float64(s.capacity), at: now}
		b.state[key] = state
	}
	state.tokens = min(float64(s.capacity), state.tokens+now.Sub(state.at).Seconds()*s.perSecond)
	state.at = now
	if state.tokens < 1 {
		return false
	}
	state.tokens--
	return true
}
