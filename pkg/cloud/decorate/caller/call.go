package caller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// Options configures what makes calls. The zero value is usable.
type Options struct {
	// Metrics may be shared by several providers; nil counts into nowhere.
	Metrics *Metrics
	// Reads and Mutations bound the calls; zero fields have defaults.
	Reads, Mutations Policy
	// Clock is for tests; nil is the real one. Deadlines of contexts are always real time.
	Clock clock.Clock
}

func (o Options) withDefaults() (Options, error) {
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	var err error
	if o.Metrics == nil {
		o.Metrics, err = NewMetrics(nil)
	}
	return o, err
}

// Policy bounds one call of the contract with all its attempts. Zero fields take defaults.
type Policy struct {
	// Deadline bounds the call with all attempts and waits: 3 min, in which 5,000 servers and
	// their ports can be listed from a cloud that is busy.
	Deadline time.Duration
	// Attempts bounds how often it is tried: 4 for reads, 3 for mutations.
	Attempts int
	// BackoffBase bounds the wait between attempts, which is random between zero and base·2ⁿ, at
	// most 10 s: 500 ms.
	BackoffBase time.Duration
}

func (p Policy) withDefaults(attempts int) Policy {
	p.Deadline = cmp.Or(p.Deadline, 3*time.Minute)
	p.Attempts = cmp.Or(p.Attempts, attempts)
	p.BackoffBase = cmp.Or(p.BackoffBase, 500*time.Millisecond)
	return p
}

// Operation is one method of the contract; its fields are metric labels.
type Operation struct {
	Ability, Name string
	Mutation      bool
	// Patient says that a throttled cloud is waited for however long it asks, as far as the policy
	// allows. Others wait briefly: who asked comes back by itself.
	Patient bool
	// Batched says that Batch makes the calls.
	Batched bool
}

// Caller makes the calls of one provider: each with a deadline, retries and metrics. A call
// that the cloud throttles waits as long as it was asked to; that others do not run into the
// same refusal is Traffic's matter.
type Caller struct {
	Provider         string
	Clock            clock.Clock
	Metrics          *Metrics
	reads, mutations Policy
}

// New makes the Caller of the provider of that name.
func New(provider string, o Options) (*Caller, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Caller{Provider: provider, Clock: o.Clock, Metrics: o.Metrics, reads: o.Reads.withDefaults(4), mutations: o.Mutations.withDefaults(3)}, nil
}

// Do makes attempts until one succeeds, fails for good, or the operation's policy or ctx
// ends it. The last attempt's error keeps its kind.
func (c *Caller) Do(ctx context.Context, op Operation, attempt func(context.Context) error) error {
	return c.try(ctx, op, func() bool { return op.Patient }, attempt)
}

// try is Do; patient is asked anew after each attempt.
func (c *Caller) try(ctx context.Context, op Operation, patient func() bool, attempt func(context.Context) error) error {
	policy := c.reads
	if op.Mutation {
		policy = c.mutations
	}
	ctx, cancel := context.WithTimeoutCause(ctx, policy.Deadline,
		fmt.Errorf("no answer within %v: %w", policy.Deadline, context.DeadlineExceeded))
	defer cancel()
	began := c.Clock.Now()
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
			klog.FromContext(ctx).V(2).Info("Cloud call failed", "provider", c.Provider, "ability", op.Ability, "operation", op.Name, "requestID", text.Line(id, 100), "err", text.Line(last.Error(), 500))
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
		c.Metrics.retries.WithLabelValues(c.Provider, op.Ability, op.Name, kind.String()).Inc()
		klog.FromContext(ctx).V(4).Info("Cloud call failed, trying again", "provider", c.Provider,
			"ability", op.Ability, "operation", op.Name, "attempt", n, "wait", wait, "err", last)
		slept := c.Clock.Now()
		err := backoff.Sleep(ctx, c.Clock, wait)
		if throttled {
			c.Metrics.throttleWait.WithLabelValues(c.Provider).Add(c.Clock.Since(slept).Seconds())
		}
		if err != nil {
			return c.gaveUp(op, last, err, n, began)
		}
	}
}

// errTooLong says why a throttled call is given up at once.
var errTooLong = errors.New("the cloud asks to wait longer than this call may take")

// once makes one attempt and measures it.
func (c *Caller) once(ctx context.Context, op Operation, attempt func(context.Context) error) error {
	inFlight := c.Metrics.inFlight.WithLabelValues(c.Provider, op.Ability, op.Name)
	inFlight.Inc()
	defer inFlight.Dec()
	ctx, span := tracing.Start(ctx, "cloud call")
	defer span.End()
	span.Set(tracing.Cloud, c.Provider)
	span.Set(tracing.Ability, op.Ability)
	span.Set(tracing.Operation, op.Name)
	began, kind := c.Clock.Now(), kindOK
	err := attempt(ctx)
	if err != nil {
		kind = cloud.KindOf(err).String()
		span.Fail(kind)
		span.Set(tracing.RequestID, cloud.RequestIDOf(err))
	}
	span.Set(tracing.Outcome, kind)
	c.Metrics.calls.WithLabelValues(c.Provider, op.Ability, op.Name, kind).Observe(c.Clock.Since(began).Seconds())
	c.Metrics.outcomes.WithLabelValues(c.Provider, op.Ability, op.Name, kind).Inc()
	return err
}

// gaveUp says what the last attempt's error was, or without an attempt why there was none.
func (c *Caller) gaveUp(op Operation, last, why error, attempts int, began time.Time) error {
	took := c.Clock.Since(began).Round(time.Millisecond)
	switch {
	case last == nil:
		return fmt.Errorf("%s %s: %w", op.Ability, op.Name, why)
	case why == nil || errors.Is(last, why):
		return fmt.Errorf("%w (gave up after %d attempts, %v)", last, attempts, took)
	default:
		return fmt.Errorf("%w (gave up after %d attempts, %v: %v)", last, attempts, took, why) //nolint:errorlint // two causes would leave the error without a kind
	}
}

// retryable: another attempt may help, and only time or reading again is needed for it.
func retryable(k cloud.Kind) bool {
	return k == cloud.KindThrottled || k == cloud.KindUnknown || k == cloud.KindUnavailable || k == cloud.KindStale
}

// backoff is the wait after the nth attempt: full jitter.
func (p Policy) backoff(n int) time.Duration {
	return backoff.Jitter(0, backoff.Doubling(p.BackoffBase, 10*time.Second, n))
}

// Batch asks for keys, and on retry only for those that failed in a way that may pass.
// The answers match keys. attempt is the provider's call.
func Batch[K comparable, V any](ctx context.Context, c *Caller, op Operation, keys []K,
	attempt func(context.Context, []K) []cloud.Result[V]) []cloud.Result[V] {
	results := make([]cloud.Result[V], len(keys))
	open := make([]int, len(keys))
	for i := range open {
		open[i] = i
	}
	ask := keys
	// What is answered is not held back by what is throttled.
	patient := func() bool { return op.Patient && len(open) == len(keys) }
	err := c.try(ctx, op, patient, func(ctx context.Context) error {
		c.Metrics.batchSize.WithLabelValues(c.Provider, op.Ability, op.Name).Observe(float64(len(ask)))
		answers := attempt(ctx, ask)
		if len(answers) != len(ask) {
			err := fmt.Errorf("%s %s: provider %s gave %d answers to %d questions, which is a bug in it",
				op.Ability, op.Name, c.Provider, len(answers), len(ask))
			answers = slices.Repeat([]cloud.Result[V]{{Err: err}}, len(ask))
		}
		var again []int
		var askAgain []K
		var worst error
		for i, answer := range answers {
			results[open[i]] = answer
			if rank(answer.Err) > rank(worst) {
				worst = answer.Err
			}
			if answer.Err != nil && retryable(cloud.KindOf(answer.Err)) {
				again, askAgain = append(again, open[i]), append(askAgain, ask[i])
			}
		}
		open, ask = again, askAgain
		return worst
	})
	for _, k := range open { // what failed, with all that do knows; what was never tried
		results[k] = cloud.Result[V]{Err: cmp.Or(results[k].Err, err)}
	}
	return results
}

// rank orders the errors of a batch, which is judged by the highest: throttling, then what may pass
// with time, then what will not. Not found is an answer.
func rank(err error) int {
	if err == nil {
		return 0
	}
	switch kind := cloud.KindOf(err); {
	case kind == cloud.KindNotFound:
		return 0
	case kind == cloud.KindThrottled:
		return 3
	case retryable(kind):
		return 2
	}
	return 1
}

// Answered turns "no error and no value" into an error; what is the value's name.
func Answered[T any](what string, value *T, err error) error {
	if err == nil && value == nil {
		return fmt.Errorf("the provider answered with neither %s nor an error, which is a bug in it", what)
	}
	return err
}

// AllAnswered is Answered of the answers of a batch, in place.
func AllAnswered[T any](what string, results []cloud.Result[*T]) []cloud.Result[*T] {
	for k, r := range results {
		results[k].Err = Answered(what, r.Value, r.Err)
	}
	return results
}
