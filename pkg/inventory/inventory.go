// Package inventory keeps what is read from time to time, for all who ask: one thing that is read all at once
// (Value), or what was learned by keys (Memory).
//
// It does not read by itself, nor ahead of time, and keeps no failure. Answers about single instances of many
// are instancecache's.
package inventory

import (
	"context"
	"sync"
	"time"
)

// Value is one thing and when it was read. The zero value is ready; it is safe for concurrent use.
type Value[T any] struct {
	mu    sync.Mutex
	value T
	read  time.Time // zero is never
}

// Get returns what was read less than maxAge ago, or reads it anew, and then keeps it unless that fails.
// Who asks meanwhile reads, too: nobody waits for another one's read. What is returned is shared.
func (v *Value[T]) Get(ctx context.Context, maxAge time.Duration, read func(context.Context) (T, error)) (T, error) {
	v.mu.Lock()
	value, fresh := v.value, !v.read.IsZero() && time.Since(v.read) < maxAge
	v.mu.Unlock()
	if fresh {
		return value, nil
	}
	value, err := read(ctx)
	if err != nil {
		return value, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.read = value, time.Now()
	return value, nil
}

// Forget has the next one who asks read anew.
func (v *Value[T]) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read = time.Time{}
}
