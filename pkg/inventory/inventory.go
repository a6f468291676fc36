// Package inventory keeps what is read from time to time, for all who ask: one thing that is read all at once
// (Value), or what was learned by keys (Memory).
//
// It does not read by itself, nor ahead of time, and keeps a failure for moments only. Answers about single instances of many
// are instancecache's.
package inventory

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// failureAge is for how long a read that has failed is the answer for all: in an outage they must not all try.
const failureAge = 2 * time.Second

// Value is one thing and when it was read. The zero value is ready; it is safe for concurrent use.
type Value[T any] struct {
	// Now is the clock, by default the real one. It is set before all else.
	Now func() time.Time
	// Read is told when the value was read, which is when that began, each time it was. It is set before all else, must not block, and may
	// be nil.
	Read func(at time.Time)

	reading singleflight.Group

	mu    sync.Mutex
	value T
	known bool      // whether there is a value, however old
	read  time.Time // when the read of the value began; zero is too long ago for anybody
	// forgotten counts the calls of Forget.
	forgotten int
	// failure is why the last read has failed, at that time.
	failure  error
	failedAt time.Time
	// edits are those since the read that is under way began.
	busy  bool
	edits []func(T) T
}

// Get returns what was read less than maxAge ago, or reads it anew, and then keeps it unless that fails. Those who ask
// at the same time share one read, which nobody of them ends, and its failure, for moments: no read may depend on who
// asks. What is returned is shared.
func (v *Value[T]) Get(ctx context.Context, maxAge time.Duration, read func(context.Context) (T, error)) (T, error) {
	return v.Since(ctx, v.now().Add(1-max(maxAge, 1)), read)
}

// Since is Get of what was read no earlier than then, which is not in the future.
func (v *Value[T]) Since(ctx context.Context, then time.Time, read func(context.Context) (T, error)) (none T, err error) {
	for {
		if value, ok, err := v.recent(then); ok || err != nil {
			return value, err
		}
		done := v.reading.DoChan("", func() (any, error) {
			if _, ok, err := v.recent(then); ok || err != nil {
				return nil, err
			}
			return nil, v.renew(context.WithoutCancel(ctx), read)
		})
		select {
		case out := <-done: // of a read that may have begun too early
			if out.Err != nil {
				return none, out.Err
			}
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// recent is the value if it was read since then, or why it cannot be read.
func (v *Value[T]) recent(then time.Time) (value T, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.read.IsZero() && !v.read.Before(then):
		return v.value, true, nil
	case v.failure != nil && v.now().Sub(v.failedAt) < failureAge:
		return value, false, v.failure
	}
	return value, false, nil
}

// renew reads the value.
func (v *Value[T]) renew(ctx context.Context, read func(context.Context) (T, error)) error {
	v.mu.Lock()
	began, forgotten := v.now(), v.forgotten
	v.busy = true
	v.mu.Unlock()
	value, err := read(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	edits := v.edits
	v.busy, v.edits = false, nil
	if v.failure, v.failedAt = err, v.now(); err != nil {
		return err
	}
	for _, edit := range edits {
		value = edit(value)
	}
	if v.value, v.known = value, true; v.forgotten == forgotten {
		v.read = began
	}
	if v.Read != nil {
		v.Read(began)
	}
	return nil
}

// Known is what is there, however old, the zero value for nothing. It is shared.
func (v *Value[T]) Known() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Edit enters what was changed here, if there is a value, and into that of a read that is under way, which may have come too
// early for it. edit returns what takes the place of the value, and leaves that as it is.
func (v *Value[T]) Edit(edit func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known {
		v.value = edit(v.value)
	}
	if v.busy {
		v.edits = append(v.edits, edit)
	}
}

// Forget has the next one who asks read anew.
func (v *Value[T]) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read = time.Time{}
	v.forgotten++
}

func (v *Value[T]) now() time.Time {
	if v.Now != nil {
		return v.Now()
	}
	return time.Now()
}
