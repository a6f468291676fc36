package cloudauth

import (
	"context"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
)

// CacheOptions say what a Cache keeps, and for how long.
type CacheOptions[V any] struct {
	// Fetch gets a new value and says when it ends; the zero time is for one that does not end by itself. It is
	// called once at a time, with a context of its own: who asked first may leave, and others still wait.
	Fetch func(ctx context.Context) (value V, expires time.Time, err error)
	// Timeout is what a Fetch has at the least; it has longer where who began it waits longer.
	Timeout time.Duration
	// Early is how long before its end a value is replaced, or the last fifth of its life if that is less;
	// 0 is five minutes.
	Early time.Duration
	// Backoff is how long nothing is fetched after so many failures in a row; nil is none after the first, then a
	// second that doubles up to half a minute.
	Backoff func(failures int, err error) time.Duration
	// Watch is a fingerprint of what values depend on, such as files. It is looked at every few seconds, and what it
	// was before a Fetch counts for that. Nil is for nothing.
	Watch func() string
	// Observe is told of every Fetch that somebody waited for to its end: how long it took, when its value ends, and
	// its error. Nil is for no one; it must not block.
	Observe func(took time.Duration, expires time.Time, err error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Cache keeps one value that ends, such as a token, for many callers at once. A new one is got before the end, by one
// Fetch at a time, which nobody waits for while there is a value that is still good; after failures it is left alone
// for a while, and the failure is the answer of those who have no value. No lock is held during a Fetch.
type Cache[V any] struct {
	options CacheOptions[V]

	mu       sync.Mutex
	value    V
	has      bool
	expires  time.Time // zero for never
	renew    time.Time // when a new one is wanted, zero for never
	seen     string    // what Watch said of value
	looked   time.Time // when it was asked
	failure  error     // of the latest Fetch, nil if it gave a value
	failures int       // in a row
	retry    time.Time // nothing is fetched before, after a failure
	flight   *flight[V]
}

// flight is a Fetch that is under way. value and err may be read once done is closed.
type flight[V any] struct {
	done    chan struct{}
	value   V
	err     error
	cancel  context.CancelFunc
	waiting int  // who waits for it
	givenUp bool // as the last of them left; what comes of it says nothing
}

const (
	// leeway is what a value has to live on to be given out.
	leeway = 10 * time.Second
	// defaultEarly is how long before their end values are replaced.
	defaultEarly = 5 * time.Minute
	// lookEvery is how often Watch is asked.
	lookEvery = 5 * time.Second
	// The bounds of the default Backoff.
	firstBackoff, lastBackoff = time.Second, 30 * time.Second
	// atEase is the least Backoff while there is a value that is good.
	atEase = 10 * time.Second
)

// NewCache returns a Cache without a value.
func NewCache[V any](o CacheOptions[V]) *Cache[V] {
	if o.Early <= 0 {
		o.Early = defaultEarly
	}
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Cache[V]{options: o}
}

func defaultBackoff(failures int, _ error) time.Duration {
	return backoff.Doubling(firstBackoff, lastBackoff, failures-1)
}

// Get returns a value that is good, from memory if there is one. Its errors are those of Fetch, and of ctx for who
// did not wait for it.
func (c *Cache[V]) Get(ctx context.Context) (V, error) {
	for {
		value, again, err := c.get(ctx)
		if !again {
			return value, err
		}
	}
}

// get is Get, but for a flight that was given up, whose end is waited for: there is one Fetch at a time.
func (c *Cache[V]) get(ctx context.Context) (value V, again bool, err error) {
	changed := c.look()
	c.mu.Lock()
	now := c.options.Now()
	if !changed && c.valid(now) && (c.renew.IsZero() || now.Before(c.renew)) {
		defer c.mu.Unlock()
		return c.value, false, nil
	}
	if c.flight == nil && now.Before(c.retry) {
		defer c.mu.Unlock()
		if c.valid(now) {
			return c.value, false, nil
		}
		return value, false, c.failure
	}
	f := c.join(ctx, now)
	if c.valid(now) && !changed {
		f.waiting-- // it goes on for those to come
		defer c.mu.Unlock()
		return c.value, false, nil
	}
	c.mu.Unlock()
	return c.wait(ctx, f)
}

// Renew is Get without the value at hand, which somebody refused. It is not given out any more.
func (c *Cache[V]) Renew(ctx context.Context) (V, error) {
	c.mu.Lock()
	var none V
	c.value, c.has = none, false // what a flight that is under way brings is newer, and is waited for
	c.mu.Unlock()
	return c.Get(ctx)
}

// Failure is why the latest Fetch gave no value, nil if it gave one, and whether nothing is fetched for now because of it.
func (c *Cache[V]) Failure() (stays bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure != nil && c.options.Now().Before(c.retry), c.failure
}

// valid reports whether there is a value that can be given out. mu held.
func (c *Cache[V]) valid(now time.Time) bool {
	return c.has && (c.expires.IsZero() || c.expires.Sub(now) > leeway)
}

// look reports whether what the value depends on has changed; for one caller at a time.
func (c *Cache[V]) look() bool {
	if c.options.Watch == nil {
		return false
	}
	c.mu.Lock()
	now := c.options.Now()
	due, seen := c.has && now.Sub(c.looked) >= lookEvery, c.seen
	if due {
		c.looked = now
	}
	c.mu.Unlock()
	return due && c.options.Watch() != seen
}

// join begins a Fetch unless one is under way. mu held.
func (c *Cache[V]) join(ctx context.Context, now time.Time) *flight[V] {
	if c.flight == nil {
		// The deadline is of real time, whatever the clock says.
		deadline := time.Now().Add(c.options.Timeout)
		if end, ok := ctx.Deadline(); ok && end.After(deadline) {
			deadline = end
		}
		flying, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		c.flight = &flight[V]{done: make(chan struct{}), cancel: cancel}
		go c.fly(flying, c.flight, now)
	}
	c.flight.waiting++
	return c.flight
}

// fly is the Fetch of a flight, and what comes of it.
func (c *Cache[V]) fly(ctx context.Context, f *flight[V], begun time.Time) {
	defer f.cancel()
	seen := ""
	if c.options.Watch != nil {
		seen = c.options.Watch()
	}
	value, expires, err := c.options.Fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	c.flight = nil
	if f.givenUp {
		return
	}
	now := c.options.Now()
	if c.options.Observe != nil {
		c.options.Observe(now.Sub(begun), expires, err)
	}
	if err != nil {
		c.failures++
		wait := c.options.Backoff(c.failures, err)
		if f.err = err; c.valid(now) {
			wait = max(wait, atEase)
			f.value, f.err = c.value, nil
		}
		c.failure, c.retry = err, now.Add(wait)
		return
	}
	expires = expires.Round(0) // by the wall clock: the monotonic one stands still while the machine sleeps
	c.value, c.has, c.expires, c.renew = value, true, expires, time.Time{}
	if !expires.IsZero() {
		c.renew = expires.Add(-min(c.options.Early, expires.Sub(now)/5))
	}
	c.seen, c.looked = seen, now
	c.failure, c.failures, c.retry = nil, 0, time.Time{}
	f.value = value
}

// wait waits for a flight, which is given up when nobody does any more.
func (c *Cache[V]) wait(ctx context.Context, f *flight[V]) (value V, again bool, err error) {
	select {
	case <-f.done:
		return f.value, f.givenUp, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 && c.flight == f {
		f.givenUp = true
		f.cancel()
	}
	return value, false, ctx.Err()
}
