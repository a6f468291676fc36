package batcher

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
)

// Options says how reads are gathered. With the zero value they follow each other, and the first one
// begins at once.
type Options struct {
	// Work owns the reads; nil lets nobody end them.
	Work *Work
	// Window is how long a read waits for company.
	Window time.Duration
	// Reads is how many are under way at a time, one at least. What is asked meanwhile is one further
	// read, so that a cloud that is slow is not asked more often.
	Reads int
	// Deadline bounds one read from when it begins; 0 leaves that to the read.
	Deadline time.Duration
	// Clock is for tests; nil is the real one. Deadlines are always real time.
	Clock clock.Clock
}

// Batcher gathers what is asked for within the window, or while as many reads as there may be are under
// way, into one read. A read ends when nobody waits for it.
type Batcher[K comparable, V any] struct {
	options Options
	slots   chan struct{} // one for each read under way

	mu      sync.Mutex
	pending *batch[K, V]
}

// batch is one read.
type batch[K comparable, V any] struct {
	done    chan struct{} // closed when results can be read
	results map[K]V

	// Guarded by Batcher.mu:
	askers int       // who waits
	wanted map[K]int // by how many of them

	left context.Context // ends when nobody waits any more
	end  context.CancelFunc
}

// New makes a Batcher.
func New[K comparable, V any](o Options) *Batcher[K, V] {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Work == nil {
		o.Work = NewWork()
	}
	return &Batcher[K, V]{options: o, slots: make(chan struct{}, max(o.Reads, 1))}
}

// Do asks for keys and returns the results of a read that began after the call, of these and perhaps of
// others'. It is the first asker's read: those of all askers must mean the same. The results are shared,
// and have what the read gave. The error is the cause of ctx, which ends only the waiting, or ErrClosed.
func (b *Batcher[K, V]) Do(ctx context.Context, keys []K, read func(context.Context, []K) map[K]V) (map[K]V, error) {
	one, err := b.join(ctx, keys, read)
	if err != nil {
		return nil, err
	}
	defer b.leave(one, keys)
	select {
	case <-one.done:
		return one.results, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join adds keys to the batch that has not begun, or to a new one.
func (b *Batcher[K, V]) join(ctx context.Context, keys []K, read func(context.Context, []K) map[K]V) (*batch[K, V], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == nil {
		one := &batch[K, V]{done: make(chan struct{}), wanted: map[K]int{}}
		one.left, one.end = context.WithCancel(context.WithoutCancel(ctx))
		if !b.options.Work.Start(ctx, func(ctx context.Context) { b.run(ctx, one, read) }) {
			one.end()
			return nil, ErrClosed
		}
		b.pending = one
	}
	b.pending.askers++
	for _, key := range keys {
		b.pending.wanted[key]++
	}
	return b.pending, nil
}

// leave takes back what join added. When nobody waits any more, the read ends.
func (b *Batcher[K, V]) leave(one *batch[K, V], keys []K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if one.wanted[key]--; one.wanted[key] == 0 {
			delete(one.wanted, key)
		}
	}
	if one.askers--; one.askers > 0 {
		return
	}
	if b.pending == one {
		b.pending = nil
	}
	one.end()
}

// run waits for company and for its turn, then reads. When it is closed or left by all while
// waiting, the read fails for that.
func (b *Batcher[K, V]) run(ctx context.Context, one *batch[K, V], read func(context.Context, []K) map[K]V) {
	defer close(one.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(one.left, cancel)() //nolint:contextcheck // the read is all askers'
	_ = backoff.Sleep(ctx, b.options.Clock, b.options.Window)
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
	}
	if b.options.Deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, b.options.Deadline)
		defer cancel()
	}
	if keys := b.begin(one); len(keys) > 0 {
		one.results = read(ctx, keys)
	}
}

// begin ends the gathering and returns what is wanted.
func (b *Batcher[K, V]) begin(one *batch[K, V]) []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == one {
		b.pending = nil
	}
	return slices.Collect(maps.Keys(one.wanted))
}
