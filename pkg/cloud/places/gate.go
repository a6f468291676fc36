package places

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// patience bounds one place's part of an operation on several. While it is not known to
	// work again trial does, at first.
	patience, trial = 30 * time.Second, 5 * time.Second
	// slow is how long a failure takes that counts at once.
	slow = 5 * time.Second
	// failuresMost in a row, or one slow one, end the asking for pause.
	failuresMost = 3
	pause        = 15 * time.Second
)

// gate keeps one place that fails from holding up the others: an operation waits for all the
// places that it asks, so a place that fails again and again is left alone for a while. What
// would have been asked of it fails meanwhile, and is nothing that callers try again at once
// (KindRetryAfter). What a place throttles is cloud.Traffic's matter.
type gate struct {
	name string // with the word for a place
	now  func() time.Time

	mu       sync.Mutex
	failures int
	until    time.Time
	cause    error
}

func newGate(name string) *gate { return &gate{name: name, now: time.Now} }

// enter returns the context for the place's part of an operation, or why it is not asked.
func (g *gate) enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.until.Sub(g.now()); wait > 0 {
		return nil, nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: wait,
			Err: fmt.Errorf("%s is not asked for another %s: %w", g.name, wait.Round(time.Second), g.cause)}
	}
	d := patience
	if g.failures >= failuresMost {
		d = min(trial<<min(g.failures-failuresMost, 10), patience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%s does not answer within %s: %w", g.name, d, context.DeadlineExceeded))
	return ctx, cancel, nil
}

// leave takes note of how it went: err is nil when the place answers at all.
func (g *gate) leave(began time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if err == nil {
		g.failures = 0
		return
	}
	if g.failures++; now.Sub(began) >= slow {
		g.failures = max(g.failures, failuresMost)
	}
	if g.failures >= failuresMost {
		g.until, g.cause = now.Add(pause), err
	}
}

// ask asks one place about n things. The answers match what it was asked.
func ask[T any](ctx context.Context, g *gate, n int, question func(context.Context) []cloud.Result[T]) []cloud.Result[T] {
	inner, cancel, err := g.enter(ctx)
	if err != nil {
		out := make([]cloud.Result[T], n)
		for k := range out {
			out[k].Err = err
		}
		return out
	}
	defer cancel()
	began := g.now()
	out := question(inner)
	if ctx.Err() == nil { // whoever gives up says nothing about the place
		g.leave(began, outage(out))
	}
	for k := range out {
		if err := out[k].Err; err != nil {
			out[k].Err = fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return out
}

// outage returns the error that speaks for a place that does not work: no answer about
// everything, in time or at all.
func outage[T any](results []cloud.Result[T]) error {
	var silent error
	for _, r := range results {
		if !cloud.IsUnavailable(r.Err) && !errors.Is(r.Err, context.DeadlineExceeded) {
			return nil
		}
		silent = r.Err
	}
	return silent
}
