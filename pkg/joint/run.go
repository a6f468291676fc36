package joint

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// maxPasses bounds the passes that one round makes to find whom the object refuses. It is
	// enough for one bad tenant of a thousand.
	maxPasses = 16
	// maxStale is how often a pass is made at most because others keep changing the object.
	maxStale = 10
)

// run makes the passes of an object until nothing is wanted of it.
func (o *Objects[D, R]) run(ctx context.Context, key string, obj *object[D, R]) {
	for o.gather(ctx, obj) {
		batch := o.begin(key, obj)
		if len(batch) == 0 {
			return
		}
		r := &round[D, R]{Objects: o, key: key, obj: obj, left: maxPasses}
		var good, apart []*entry[D, R]
		for _, e := range batch {
			if e.apart {
				apart = append(apart, e)
			} else {
				good = append(good, e)
			}
		}
		r.serve(ctx, good)
		r.left = maxPasses
		r.serve(ctx, apart)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	obj.running = false
}

// gather waits until nothing more has come for a while. It reports whether ctx goes on.
func (o *Objects[D, R]) gather(ctx context.Context, obj *object[D, R]) bool {
	enough := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(obj.queue) == 0 || len(obj.queue) >= o.options.Tenants
	}
	if enough() {
		return ctx.Err() == nil
	}
	most := o.options.Clock.NewTimer(o.options.Most)
	defer most.Stop()
	quiet := o.options.Clock.NewTimer(o.options.Quiet)
	defer func() { quiet.Stop() }()
	for !enough() {
		select {
		case <-ctx.Done():
			return false
		case <-most.C():
			return true
		case <-quiet.C():
			return true
		case <-obj.arrived:
			quiet.Stop()
			quiet = o.options.Clock.NewTimer(o.options.Quiet)
		}
	}
	return ctx.Err() == nil
}

// begin takes the tenants of the next pass. Where there are none, the goroutine that asks is over.
func (o *Objects[D, R]) begin(key string, obj *object[D, R]) []*entry[D, R] {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(obj.queue), o.options.Tenants)
	batch := obj.queue[:n:n]
	obj.queue = obj.queue[n:]
	for _, e := range batch {
		e.phase = passing
	}
	if n == 0 {
		obj.running, obj.queue = false, nil
		o.evict(obj)
		o.drop(key, obj)
	}
	return batch
}

// round serves the tenants that were gathered.
type round[D, R any] struct {
	*Objects[D, R]
	key  string
	obj  *object[D, R]
	left int // passes that it may still make
}

// serve has each tenant answered. Where the object refuses them together, it looks for the one
// because of whom: of a set that is refused it tries the first half. If that is taken, the bad one
// is in the other; if not, the other waits until the bad one is found, and is tried as a whole.
func (r *round[D, R]) serve(ctx context.Context, set []*entry[D, R]) {
	for len(set) > 0 {
		answers, err := r.try(ctx, set)
		if err == nil {
			r.finish(set, answers)
			return
		}
		whole := err
		var rest []*entry[D, R]
		for len(set) > 1 && r.left > 0 && isSomebodys(ctx, err) {
			first, second := set[:len(set)/2], set[len(set)/2:]
			if answers, err = r.try(ctx, first); err != nil {
				set, rest = first, append(second[:len(second):len(second)], rest...)
				continue
			}
			r.finish(first, answers)
			if set, err = second, whole; len(set) > 1 || r.left <= 0 {
				continue
			}
			if answers, err = r.try(ctx, set); err == nil { // it was none's fault alone
				r.finish(set, answers)
				set = nil
			}
		}
		r.refuse(set, err, len(set) == 1 && isSomebodys(ctx, err))
		if r.left <= 0 || len(set) > 1 || !isSomebodys(ctx, err) && err != nil {
			r.refuse(rest, whole, false)
			return
		}
		set = rest
	}
}

// Blames reports whether a tenant may be the reason of err: trying the others without it may help then.
func Blames(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindUnavailable, cloud.KindThrottled, cloud.KindDenied, cloud.KindRetryAfter, cloud.KindStale:
		return false
	default:
		return true
	}
}

func isSomebodys(ctx context.Context, err error) bool { return Blames(err) && ctx.Err() == nil }

// try makes a pass, once more where others have changed the object meanwhile.
func (r *round[D, R]) try(ctx context.Context, set []*entry[D, R]) (answers []cloud.Result[R], err error) {
	r.left--
	r.mu.Lock()
	all := tenants(set)
	r.mu.Unlock()
	for range maxStale {
		answers, err = r.pass(ctx, r.key, all)
		if cloud.KindOf(err) != cloud.KindStale || ctx.Err() != nil {
			break
		}
	}
	if err == nil && len(answers) != len(all) {
		err = errAnswers
	}
	klog.FromContext(ctx).V(4).Info("Pass over an object that Services share has ended", "tenants", len(all), "err", err)
	return answers, err
}

// refuse answers all with err.
func (r *round[D, R]) refuse(set []*entry[D, R], err error, apart bool) {
	r.answer(set, func(int) cloud.Result[R] { return cloud.Result[R]{Err: err} }, apart)
}

func (r *round[D, R]) finish(set []*entry[D, R], answers []cloud.Result[R]) {
	r.answer(set, func(i int) cloud.Result[R] { return answers[i] }, false)
}

// answer hands out answers. Who wants something else by now is queued anew.
func (r *round[D, R]) answer(set []*entry[D, R], answer func(int) cloud.Result[R], apart bool) {
	var tell []cloud.LoadBalancerRef
	r.mu.Lock()
	for i, e := range set {
		e.apart, e.since = apart, r.options.Clock.Now()
		close(e.done)
		if e.next != nil {
			r.obj.add(e, *e.next)
			continue
		}
		if e.phase, e.answer = ended, answer(i); e.waiters == 0 {
			tell = append(tell, e.tenant.Ref)
		}
	}
	r.evict(r.obj)
	again := r.again
	if r.term != nil && r.term.Err() != nil {
		again = nil
	}
	r.mu.Unlock()
	for _, ref := range tell {
		if again != nil {
			again(ref)
		}
	}
}
