package await

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// begin starts the goroutine that looks; it ends with the term, or when nothing is pending. ctx
// is the caller's.
func (w *Waiter[T]) begin(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop, w.failed = stop, nil
	if w.tells() {
		unbound := context.AfterFunc(w.term, stop) //nolint:contextcheck // the term ends it, not a caller
		w.stop = func() { unbound(); stop() }
	}
	go w.look(ctx)
}

func (w *Waiter[T]) look(ctx context.Context) {
	for {
		pause, ok := w.pause(ctx)
		if !ok {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-w.news: // which may be due before
			timer.Stop()
			if ctx.Err() != nil { // they are for the goroutine that looks now
				w.notify()
			}
			continue
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			continue
		}
		waits, ids := w.pick()
		one, cancel := context.WithTimeout(ctx, deadline)
		seen, err := w.poll(one, ids)
		cancel()
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Cannot look at what the cloud works on", "objects", len(ids), "reason", err.Error())
		}
		w.tell(waits, seen, err)
	}
}

// pause is how long it is until the next look. It is false, and the goroutine is to end, when
// nothing is pending or ctx has ended.
func (w *Waiter[T]) pause(ctx context.Context) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		w.endTerm()
		return 0, false
	}
	now := time.Now()
	w.evict(now)
	var due time.Time
	id, gap := "", w.pace.First
	for _, x := range w.waits {
		if x.hasEnded() {
			continue
		}
		if due.IsZero() || x.due.Before(due) {
			due = x.due
		}
		if id != "" && id != x.id {
			gap = w.pace.Gap
		}
		id = x.id
	}
	if due.IsZero() {
		w.stop()
		w.stop = nil
		return 0, false
	}
	if earliest := w.looked.Add(gap); due.Before(earliest) {
		due = earliest
	}
	return max(due.Sub(now), 0), true
}

// endTerm drops what nobody will be told of, once the term has ended.
func (w *Waiter[T]) endTerm() {
	if w.term == nil || w.term.Err() == nil {
		return // the goroutine was not ended by its term
	}
	for k, x := range w.waits {
		if x.in == 0 {
			delete(w.waits, k)
		}
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// notify tells the goroutine that looks of a wait that has begun.
func (w *Waiter[T]) notify() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// pick returns all that is pending: what is not due yet is looked at with the rest.
func (w *Waiter[T]) pick() (waits []*wait[T], ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.looked = now
	for _, x := range w.waits {
		if x.hasEnded() {
			continue
		}
		waits, ids = append(waits, x), append(ids, x.id)
		x.due = now.Add(min(max(now.Sub(x.began)/8, w.pace.First), w.pace.Most))
	}
	slices.Sort(ids)
	return waits, slices.Compact(ids)
}

// tell ends the waits for what has ended. Those that began after the look did are not among them.
func (w *Waiter[T]) tell(waits []*wait[T], seen map[string]T, err error) {
	w.mu.Lock()
	w.failed = err
	again := w.again
	if !w.tells() {
		again = nil
	}
	var told []cloud.LoadBalancerRef
	for _, x := range waits {
		object, ok := seen[x.id]
		if !ok || x.hasEnded() {
			continue
		}
		x.at, x.seen = w.looked, object
		close(x.ended)
		if x.in == 0 && w.waits[keyOf(x.ref, x.id)] == x {
			told = append(told, x.ref)
		}
	}
	w.mu.Unlock()
	if again == nil {
		return
	}
	for _, ref := range told {
		again(ref)
	}
}
