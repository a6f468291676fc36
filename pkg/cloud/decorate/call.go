package decorate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// operation is one method of the contract; its fields are metric labels.
type operation struct {
	ability, name string
	mutation      bool
	// patient says that a throttled cloud is waited for however long it asks, as far as the policy
	// allows. Others wait briefly: who asked comes back by itself.
	patient bool
}

// caller makes the calls of one provider: each with a deadline, retries and metrics. A call
// that the cloud throttles waits as long as it was asked to; that others do not run into the
// same refusal is Traffic's matter.
type caller struct {
	provider         string
	clock            clock.Clock
	metrics          *Metrics
	reads, mutations Policy
}

func newCaller(provider string, o Options) *caller {
	return &caller{
		provider:  provider,
		clock:     o.Clock,
		metrics:   o.Metrics,
		reads:     o.Reads.withDefaults(3*time.Minute, 4),
		mutations: o.Mutations.withDefaults(3*time.Minute, 3),
	}
}

// do makes attempts until one succeeds, fails for good, or the operation's policy or ctx
// ends it. The last attempt's error keeps its kind.
func (c *caller) do(ctx context.Context, op operation, attempt func(context.Context) error) error {
	return c.try(ctx, op, func() bool { return op.patient }, attempt)
}

// try is do; patient is asked anew after each attempt.
func (c *caller) try(ctx context.Context, op operation, patient func() bool, attempt func(context.Context) error) error {
	policy := c.reads
	if op.mutation {
		policy = c.mutations
	}
	ctx, cancel := context.WithTimeoutCause(ctx, policy.Deadline,
		fmt.Errorf("no answer within %v: %w", policy.Deadline, context.DeadlineExceeded))
	defer cancel()
	began := c.clock.Now()
	var last error
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return c.gaveUp(op, last, context.Cause(ctx), n-1, began)
		}
		if last = c.once(ctx, op, attempt); last == nil {
			return nil
		}
		kind := cloud.KindOf(last)
		if id := cloud.RequestIDOf(last); id != "" && kind != cloud.KindNotFound {
			klog.FromContext(ctx).V(2).Info("Cloud call failed", "provider", c.provider, "ability", op.ability, "operation", op.name, "requestID", text.Clip(id, 100), "err", text.Clip(last.Error(), 500))
		}
		if !retryable(kind) {
			return last
		}
		throttled := kind == cloud.KindThrottled
		if throttled && errors.Is(last, errNotAdmitted) {
			n-- // it was no attempt
		}
		if ctx.Err() != nil || n == policy.Attempts {
			return c.gaveUp(op, last, context.Cause(ctx), n, began)
		}
		wait := policy.backoff(max(n, 1))
		if throttled {
			asked := bounded(cloud.RetryAfter(last))
			wait = max(wait, spread(asked))
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait || asked > throttleBrief && !patient() {
				return c.gaveUp(op, last, errTooLong, n, began)
			}
		}
		c.metrics.retries.WithLabelValues(c.provider, op.ability, op.name, kind.String()).Inc()
		klog.FromContext(ctx).V(4).Info("Cloud call failed, trying again", "provider", c.provider,
			"ability", op.ability, "operation", op.name, "attempt", n, "wait", wait, "err", last)
		if err := c.wait(ctx, wait, throttled); err != nil {
			return c.gaveUp(op, last, err, n, began)
		}
	}
}

// errTooLong says why a throttled call is given up at once.
var errTooLong = errors.New("the cloud asks to wait longer than this call may take")

// wait waits between two attempts.
func (c *caller) wait(ctx context.Context, d time.Duration, throttled bool) error {
	began := c.clock.Now()
	err := sleep(ctx, c.clock, d)
	if throttled {
		c.metrics.throttleWait.WithLabelValues(c.provider).Add(c.clock.Since(began).Seconds())
	}
	return err
}

// once makes one attempt and measures it.
func (c *caller) once(ctx context.Context, op operation, attempt func(context.Context) error) error {
	inFlight := c.metrics.inFlight.WithLabelValues(c.provider, op.ability, op.name)
	inFlight.Inc()
	defer inFlight.Dec()
	began := c.clock.Now()
	err := attempt(ctx)
	c.metrics.calls.WithLabelValues(c.provider, op.ability, op.name, outcome(err)).
		Observe(c.clock.Since(began).Seconds())
	return err
}

// gaveUp says what the last attempt's error was, or without an attempt why there was none.
func (c *caller) gaveUp(op operation, last, why error, attempts int, began time.Time) error {
	took := c.clock.Since(began).Round(time.Millisecond)
	switch {
	case last == nil:
		return fmt.Errorf("%s %s: %w", op.ability, op.name, why)
	case why == nil || errors.Is(last, why):
		return fmt.Errorf("%w (gave up after %d attempts, %v)", last, attempts, took)
	default:
		return fmt.Errorf("%w (gave up after %d attempts, %v: %v)", last, attempts, took, why) //nolint:errorlint // two causes would leave the error without a kind
	}
}

// retryable: another attempt may help, and only time or reading again is needed for it.
func retryable(k cloud.Kind) bool {
	switch k {
	case cloud.KindThrottled, cloud.KindUnknown, cloud.KindUnavailable, cloud.KindStale:
		return true
	}
	return false
}

// outcome is err as the label kind has it.
func outcome(err error) string {
	if err == nil {
		return "OK"
	}
	return cloud.KindOf(err).String()
}

// backoff is the wait after the nth attempt: full jitter.
func (p Policy) backoff(n int) time.Duration {
	return backoff.Jitter(0, backoff.Doubling(p.BackoffBase, p.BackoffMax, n))
}

// batch asks for keys, and on retry only for those that failed in a way that may pass.
// The answers match keys. attempt is the provider's call.
func batch[K comparable, V any](ctx context.Context, c *caller, op operation, keys []K,
	attempt func(context.Context, []K) []cloud.Result[V]) []cloud.Result[V] {
	results := make([]cloud.Result[V], len(keys))
	open := make([]int, len(keys))
	for i := range open {
		open[i] = i
	}
	ask := keys
	// What is answered is not held back by what is throttled.
	patient := func() bool { return op.patient && len(open) == len(keys) }
	err := c.try(ctx, op, patient, func(ctx context.Context) error {
		c.metrics.batchSize.WithLabelValues(c.provider, op.ability, op.name).Observe(float64(len(ask)))
		answers := attempt(ctx, ask)
		if len(answers) != len(ask) {
			err := fmt.Errorf("%s %s: provider %s gave %d answers to %d questions, which is a bug in it",
				op.ability, op.name, c.provider, len(answers), len(ask))
			answers = make([]cloud.Result[V], len(ask))
			for i := range answers {
				answers[i].Err = err
			}
		}
		var again []int
		var worst error
		for i, answer := range answers {
			results[open[i]] = answer
			worst = worse(worst, answer.Err)
			if answer.Err != nil && retryable(cloud.KindOf(answer.Err)) {
				again = append(again, open[i])
			}
		}
		open, ask = again, make([]K, len(again))
		for i, k := range again {
			ask[i] = keys[k]
		}
		return worst
	})
	for _, k := range open { // what failed, with all that do knows; what was never tried
		results[k] = cloud.Result[V]{Err: keepOwn(results[k].Err, err)}
	}
	return results
}

// keepOwn prefers an item's own error to that of its batch.
func keepOwn(own, batch error) error {
	if own != nil {
		return own
	}
	return batch
}

// worse picks the error by which a batch is judged: throttling first, then what may pass
// with time, then what will not. Not found is an answer.
func worse(a, b error) error {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func rank(err error) int {
	if err == nil {
		return 0
	}
	switch cloud.KindOf(err) {
	case cloud.KindNotFound:
		return 0
	case cloud.KindThrottled:
		return 3
	case cloud.KindUnknown, cloud.KindUnavailable, cloud.KindStale:
		return 2
	default:
		return 1
	}
}
