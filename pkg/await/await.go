package await

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Poll looks at the objects of ids and returns those whose work has ended, each as it is then. An
// error says that nothing is known of those that are not returned: they are looked at again.
type Poll[T any] func(ctx context.Context, ids []string) (map[string]T, error)

// Pace says how often is looked. The zero value is DefaultPace.
type Pace struct {
	// First is how long after its begin an object is looked at first, Most the longest pause
	// between two looks at it; in between the pause is an eighth of the time it has taken.
	First, Most time.Duration
	// Gap is the shortest time from the begin of one look to that of the next while there are
	// several objects; it is twenty times as long as the last look took where that is longer, up to
	// Most: a cloud that is busy is not kept busy by being looked at. One alone is cheap to look at: for it that is First,
	// or five times as long as the last look took, up to Gap.
	Gap time.Duration
	// Retry is after how long a Wait in vain asks to be called again, should nobody be told before.
	Retry time.Duration
}

// DefaultPace is for objects that take from a second to many minutes.
func DefaultPace() Pace {
	return Pace{First: 250 * time.Millisecond, Most: 10 * time.Second, Gap: time.Second, Retry: 5 * time.Second}
}

const (
	// fresh is how long the end of some work is taken for the state of the object.
	fresh = 10 * time.Second
	// forgotten is after how long work is not looked at any more that nobody asks about. It is
	// longer than the longest pause between two attempts of a controller.
	forgotten = 15 * time.Minute
	// share is which part of the time may be spent with looks at several objects: a twentieth; with those
	// at one, a fifth, or once a Gap.
	share, shareOfOne = 20, 5
	// deadline bounds one look.
	deadline = time.Minute
)

// Waiter waits for the work on objects, by their IDs. New makes one.
type Waiter[T any] struct {
	poll Poll[T]
	pace Pace

	mu    sync.Mutex
	waits map[key]*wait[T]
	// term and again are those of Attach; again is nil before.
	term  context.Context //nolint:containedctx // bounds the goroutine that looks
	again func(cloud.LoadBalancerRef)
	// stop ends the goroutine that looks; nil while there is none.
	stop   context.CancelFunc
	looked time.Time     // when the last look began
	took   time.Duration // how long it took
	failed error         // of the last look
	news   chan struct{} // holds one element when a wait has begun
}

// key is one Service's wait for one object: several may share it, and have begun at different times.
type key struct {
	id      string
	service cloud.LoadBalancerKey
}

type wait[T any] struct {
	ref   cloud.LoadBalancerRef
	id    string
	began time.Time
	due   time.Time // of the next look
	asked time.Time // when the last Wait ended
	in    int       // calls of Wait under way
	ended chan struct{}
	// at and seen are valid once ended is closed.
	at   time.Time
	seen T
}

// New returns a Waiter. poll is called by a goroutine of its own, which exists while something
// is waited for.
func New[T any](poll Poll[T], pace Pace) *Waiter[T] {
	if pace == (Pace{}) {
		pace = DefaultPace()
	}
	return &Waiter[T]{poll: poll, pace: pace, waits: map[key]*wait[T]{}, news: make(chan struct{}, 1)}
}

// Attach has again called for each Service whose Wait was in vain when the work on its object
// has ended, until ctx ends. Without it only calls of Wait that are under way learn of an end.
func (w *Waiter[T]) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term, w.again = ctx, again
	if w.stop != nil { // it begins anew, bounded by the term
		w.stop()
		w.begin(ctx)
	}
}

// Wait returns what the object was like at the end of the work on it, or after d KindRetryAfter.
// Work that has ended since the Service's last Wait in vain is told at once.
func (w *Waiter[T]) Wait(ctx context.Context, ref cloud.LoadBalancerRef, id string, d time.Duration) (T, error) {
	var none T
	k, x := w.enter(ctx, ref, id)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-x.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	ended, failed := w.leave(k, x)
	switch {
	case ended:
		return x.seen, nil
	case ctx.Err() != nil:
		return none, fmt.Errorf("wait for the work on %s: %w", id, context.Cause(ctx))
	case failed != nil:
		return none, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: w.pace.Retry, Err: fmt.Errorf("the work on %s may not have ended, which could not be looked up: %w", id, hidden{failed})}
	}
	return none, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: w.pace.Retry, Err: fmt.Errorf("the work on %s has not ended", id)}
}

// hidden is an error whose kind is nobody's business.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

// Forget drops what is known of the work so far, for a Service that begins more of it.
func (w *Waiter[T]) Forget(ref cloud.LoadBalancerRef, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, keyOf(ref, id))
}

// Tells reports whether Services are told of an end that their Wait was in vain for: there is a
// term. Without one, whoever comes back has to look for itself.
func (w *Waiter[T]) Tells() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tells()
}

// Len is how many waits are remembered.
func (w *Waiter[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waits)
}

func keyOf(ref cloud.LoadBalancerRef, id string) key {
	return key{id, ref.Key()}
}

// enter begins a call of Wait.
func (w *Waiter[T]) enter(ctx context.Context, ref cloud.LoadBalancerRef, id string) (key, *wait[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, now := keyOf(ref, id), time.Now()
	w.evict(now)
	x := w.waits[k]
	if x == nil {
		x = &wait[T]{ref: ref, id: id, began: now, due: now.Add(w.pace.First), ended: make(chan struct{})}
		w.waits[k] = x
		if w.stop == nil {
			w.begin(ctx)
		}
		w.notify()
	}
	x.in++
	return k, x
}

// leave ends a call of Wait, and reports whether the work has ended and how the last look failed.
func (w *Waiter[T]) leave(k key, x *wait[T]) (ended bool, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.in--
	x.asked = time.Now()
	if ended = x.hasEnded(); w.waits[k] == x && x.in == 0 && (ended || !w.tells()) {
		delete(w.waits, k)
	}
	if w.stop != nil && !w.pending() {
		w.stop()
		w.stop = nil
	}
	return ended, w.failed
}

func (x *wait[T]) hasEnded() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// tells reports whether somebody is told of an end that no call of Wait is there for.
func (w *Waiter[T]) tells() bool { return w.again != nil && w.term.Err() == nil }

// pending reports whether there is something to look at.
func (w *Waiter[T]) pending() bool {
	for _, x := range w.waits {
		if !x.hasEnded() {
			return true
		}
	}
	return false
}

// evict drops what is too old to be told, and what nobody asks about any more.
func (w *Waiter[T]) evict(now time.Time) {
	for k, x := range w.waits {
		if x.in == 0 && (x.hasEnded() && now.Sub(x.at) > fresh || now.Sub(x.asked) > forgotten) {
			delete(w.waits, k)
		}
	}
}

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
	id, gap := "", max(w.pace.First, min(shareOfOne*w.took, w.pace.Gap))
	for _, x := range w.waits {
		if x.hasEnded() {
			continue
		}
		if due.IsZero() || x.due.Before(due) {
			due = x.due
		}
		if id != "" && id != x.id {
			gap = min(max(w.pace.Gap, share*w.took), w.pace.Most)
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
	w.failed, w.took = err, time.Since(w.looked)
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
