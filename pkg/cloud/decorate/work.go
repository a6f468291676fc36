package decorate

import (
	"context"
	"errors"
	"sync"
)

// errClosed is the answer of everything asked after Close.
var errClosed = errors.New("shutting down: the cloud is not asked any more")

// work owns the goroutines that run on behalf of several askers.
type work struct {
	mu      sync.Mutex
	closed  bool
	next    int
	cancels map[int]context.CancelFunc
	running sync.WaitGroup
}

func newWork() *work { return &work{cancels: map[int]context.CancelFunc{}} }

// start runs f with the values of ctx (its logger) but neither its cancellation nor its
// deadline: f belongs to all who wait for it, not to the first. It is false after close.
func (w *work) start(ctx context.Context, f func(context.Context)) bool {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		cancel()
		return false
	}
	id := w.next
	w.next++
	w.cancels[id] = cancel
	w.running.Add(1)
	w.mu.Unlock()
	go func() {
		defer w.running.Done()
		defer func() {
			cancel()
			w.mu.Lock()
			delete(w.cancels, id)
			w.mu.Unlock()
		}()
		f(ctx)
	}()
	return true
}

// close cancels all and waits.
func (w *work) close() {
	w.mu.Lock()
	w.closed = true
	for _, cancel := range w.cancels {
		cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
}
