package joint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Tenant is one Service's part of an object.
type Tenant[D any] struct {
	Ref cloud.LoadBalancerRef
	// Desired is what it wants there. Where it is Gone, that is only a hint of what it has there.
	Desired D
	// Gone says that nothing of it shall be left.
	Gone bool
}

// Pass brings the object in line with what the tenants want and answers each of them, in their
// order. It leaves alone what is not theirs; see the package.
//
// err means that the object as a whole was not written, and no tenant in particular is the reason:
// of KindStale, that others have changed it since it was read. ctx ends with the term only, so that
// each call of the cloud needs a deadline of its own.
type Pass[D, R any] func(ctx context.Context, key string, tenants []Tenant[D]) (answers []cloud.Result[R], err error)

// Options bound passes. Zero values stand for the defaults.
type Options struct {
	// Quiet is for how long nothing new has come when a pass begins (default 250 ms), Most the
	// longest that the first one waits for it (10 s).
	Quiet, Most time.Duration
	// Wait is how long Ensure and Delete wait for the end of the pass; by default not at all.
	Wait time.Duration
	// Waiters is how many of them wait at most, by default all. Whoever comes beside is told
	// KindRetryAfter at once: a caller with few workers would otherwise gather as few tenants.
	Waiters int
	// Retry is when to ask again where nobody is told (5 s).
	Retry time.Duration
	// Tenants is how many there are in a pass at most (1,000).
	Tenants int
	// Clock is the real one by default.
	Clock clock.WithTicker
}

const (
	defaultQuiet, defaultMost = 250 * time.Millisecond, 10 * time.Second
	defaultRetry              = 5 * time.Second
	defaultTenants            = 1000
	// keep is for how long an answer that nobody asks for is kept, and how long a tenant that was
	// refused alone is kept apart.
	keep = 10 * time.Minute
)

// Objects are the objects that one pass knows how to write. The zero value is of no use.
type Objects[D, R any] struct {
	pass    Pass[D, R]
	options Options

	mu      sync.Mutex
	objects map[string]*object[D, R] // those that have entries
	waiters int                      // who wait, all together
	// term and again are those of Attach; nil before.
	term  context.Context //nolint:containedctx // of the passes, which outlive the calls that asked for them
	again func(cloud.LoadBalancerRef)
}

type phase int

const (
	idle    phase = iota // nothing is wanted; it is only remembered whether it is to be kept apart
	queued               // for the next pass
	passing              // in the pass that runs
	ended                // its answer waits to be asked for
)

// object is what is going on with one object.
type object[D, R any] struct {
	entries map[cloud.LoadBalancerKey]*entry[D, R]
	queue   []*entry[D, R] // those that are queued, in the order in which they came
	running bool           // there is a goroutine that makes its passes
	arrived chan struct{}  // holds an element when something has come since it was emptied
}

// entry is one tenant of one object.
type entry[D, R any] struct {
	tenant  Tenant[D]
	phase   phase
	next    *Tenant[D] // wanted since the pass began
	answer  cloud.Result[R]
	waiters int           // who wait for the end of the pass
	done    chan struct{} // closed when the answer is there
	apart   bool          // was refused alone
	since   time.Time     // when its last pass ended
}

// New returns Objects that pass writes.
func New[D, R any](pass Pass[D, R], o Options) *Objects[D, R] {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Quiet, defaultQuiet)
	set(&o.Most, defaultMost)
	set(&o.Retry, defaultRetry)
	if o.Tenants <= 0 {
		o.Tenants = defaultTenants
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Objects[D, R]{pass: pass, options: o, objects: map[string]*object[D, R]{}}
}

// Attach bounds the passes by ctx, and has again told, until that ends, of each tenant whose pass
// has ended while nobody waits for it. Before it is called passes are not bounded; when ctx has ended
// there are none until it is called again.
func (o *Objects[D, R]) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.term, o.again = ctx, again
}

// Ensure has the object hold what the tenant desires. It is KindRetryAfter until a pass with
// exactly that has ended (by reflect.DeepEqual); then it is the pass's answer, once.
func (o *Objects[D, R]) Ensure(ctx context.Context, key string, ref cloud.LoadBalancerRef, desired D) (R, error) {
	return o.want(ctx, key, Tenant[D]{Ref: ref, Desired: desired})
}

// Delete has the object hold nothing of the tenant any more. It is KindRetryAfter until a pass has
// ended that was told so. hint may be wrong.
func (o *Objects[D, R]) Delete(ctx context.Context, key string, ref cloud.LoadBalancerRef, hint D) error {
	_, err := o.want(ctx, key, Tenant[D]{Ref: ref, Desired: hint, Gone: true})
	return err
}

func (o *Objects[D, R]) want(ctx context.Context, key string, t Tenant[D]) (none R, err error) {
	var timeout <-chan time.Time
	if o.options.Wait > 0 {
		timer := o.options.Clock.NewTimer(o.options.Wait)
		defer timer.Stop()
		timeout = timer.C()
	}
	for waits := o.options.Wait > 0; ; {
		e, done, answer := o.enter(ctx, key, t, waits)
		switch {
		case e == nil:
			return answer.Value, answer.Err
		case done == nil:
			return none, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.options.Retry, Err: fmt.Errorf("%s is changed together with what other Services want of it", key)}
		}
		select {
		case <-done:
		case <-timeout:
			waits = false
		case <-ctx.Done():
			waits = false
		}
		o.leave(e)
	}
}

// enter takes the answer where there is one; otherwise it notes what the tenant wants. done, nil for who
// does not wait, is closed when the next pass with the entry e has ended. Who waits for that leaves e
// afterwards, and enters again: the answer may be there, and nobody was told of it.
func (o *Objects[D, R]) enter(ctx context.Context, key string, t Tenant[D], waits bool) (e *entry[D, R], done <-chan struct{}, answer cloud.Result[R]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	obj, id := o.objects[key], t.Ref.Key()
	if obj == nil {
		obj = &object[D, R]{entries: map[cloud.LoadBalancerKey]*entry[D, R]{}, arrived: make(chan struct{}, 1)}
		o.objects[key] = obj
	}
	if e = obj.entries[id]; e == nil {
		e = &entry[D, R]{}
		obj.entries[id] = e
	}
	switch same := e.tenant.same(t); {
	case e.phase == ended && same && o.options.Clock.Now().Sub(e.since) <= keep: // an older one is not true any more
		return nil, nil, o.collect(key, obj, id, e)
	case e.phase == passing && same:
		e.next = nil
	case e.phase == passing:
		e.next = &t
	case e.phase == queued && same:
		e.tenant.Ref = t.Ref
	case e.phase == queued:
		e.tenant = t
		obj.arrive()
	default:
		obj.add(e, t)
	}
	if bound := cmp.Or(o.term, context.WithoutCancel(ctx)); !obj.running && bound.Err() == nil {
		obj.running = true
		go o.run(klog.NewContext(bound, klog.LoggerWithValues(klog.Background(), "object", key)), key, obj) //nolint:contextcheck // what passes log is not about the Service that asked first
	}
	if !waits || o.options.Waiters > 0 && o.waiters >= o.options.Waiters {
		return e, nil, answer
	}
	e.waiters++
	o.waiters++
	return e, e.done, answer
}

func (o *Objects[D, R]) leave(e *entry[D, R]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.waiters--
	o.waiters--
}

// Len is how many tenants something is known of.
func (o *Objects[D, R]) Len() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, obj := range o.objects {
		n += len(obj.entries)
	}
	return n
}

// collect gives an answer out and forgets it.
func (o *Objects[D, R]) collect(key string, obj *object[D, R], id cloud.LoadBalancerKey, e *entry[D, R]) cloud.Result[R] {
	answer := e.answer
	e.answer, e.phase, e.tenant = cloud.Result[R]{}, idle, Tenant[D]{}
	if !e.apart {
		delete(obj.entries, id)
	}
	o.drop(key, obj)
	return answer
}

// evict forgets what is too old.
func (o *Objects[D, R]) evict(obj *object[D, R]) {
	now := o.options.Clock.Now()
	maps.DeleteFunc(obj.entries, func(_ cloud.LoadBalancerKey, e *entry[D, R]) bool {
		return (e.phase == ended || e.phase == idle) && now.Sub(e.since) > keep
	})
}

// drop forgets an object of which nothing is known any more.
func (o *Objects[D, R]) drop(key string, obj *object[D, R]) {
	if len(obj.entries) == 0 && !obj.running {
		delete(o.objects, key)
	}
}

// add queues a tenant.
func (obj *object[D, R]) add(e *entry[D, R], t Tenant[D]) {
	e.tenant, e.phase, e.answer, e.next, e.done = t, queued, cloud.Result[R]{}, nil, make(chan struct{})
	obj.queue = append(obj.queue, e)
	obj.arrive()
}

// arrive tells whoever gathers that something has come.
func (obj *object[D, R]) arrive() {
	select {
	case obj.arrived <- struct{}{}:
	default:
	}
}

func (t Tenant[D]) same(other Tenant[D]) bool {
	return t.Gone == other.Gone && reflect.DeepEqual(t.Desired, other.Desired)
}

var errAnswers = errors.New("the pass did not answer each tenant, which is a bug in it")

// tenants are what the entries want.
func tenants[D, R any](entries []*entry[D, R]) []Tenant[D] {
	out := make([]Tenant[D], 0, len(entries))
	for _, e := range entries {
		out = append(out, e.tenant)
	}
	return out
}
