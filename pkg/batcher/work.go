package batcher

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the answer of everything that is asked after Close.
var ErrClosed = errors.New("shutting down: the cloud is not asked any more")

// Work owns the goroutines that run on behalf of several askers.
type Work struct {
	mu      sync.Mutex // so that none is added while Close waits
	ended   context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// NewWork makes a Work.
func NewWork() *Work {
	w := &Work{}
	w.ended, w.end = context.WithCancel(context.Background()) //nolint:forbidigo // it outlives who asks
	return w
}

// Start runs f with the values of ctx (its logger) but neither its cancellation nor its
// deadline: f belongs to all who wait for it, not to the first. It is false after Close.
func (w *Work) Start(ctx context.Context, f func(context.Context)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Closed() {
		return false
	}
	w.running.Go(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(w.ended, cancel)() //nolint:contextcheck // it is all askers'
		f(ctx)
	})
	return true
}

// Closed reports whether Close was called.
func (w *Work) Closed() bool { return w.ended.Err() != nil }

// Close cancels all and waits. It may be called more than once.
func (w *Work) Close() {
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.running.Wait()
}
