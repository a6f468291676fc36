package openstack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// regionPatience bounds one region's part of an operation on several. While it is not known
	// to work again regionTrial does, at first.
	regionPatience, regionTrial = 30 * time.Second, 5 * time.Second
	// regionSlow is how long a failure takes that counts at once.
	regionSlow = 5 * time.Second
	// regionFailures in a row, or one slow one, end the asking for regionPause.
	regionFailures = 3
	regionPause    = 15 * time.Second
)

// regionGate keeps one region that fails from holding up the others: an operation waits for
// all the regions that it asks, so a region that fails again and again is left alone for a
// while. What would have been asked of it fails meanwhile, and is nothing that callers try
// again at once (KindRetryAfter). So is what a region throttles: each of its services has its
// own wait (cloud.Traffic), which those who ask about the Nodes of all regions, one after the
// other, do not wait for.
type regionGate struct {
	name string
	now  func() time.Time

	mu       sync.Mutex
	failures int
	until    time.Time
	cause    error
}

func newRegionGate(name string) *regionGate { return &regionGate{name: name, now: time.Now} }

// enter returns the context for the region's part of an operation, or why it is not asked.
func (g *regionGate) enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.until.Sub(g.now()); wait > 0 {
		return nil, nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: wait,
			Err: fmt.Errorf("region %s is not asked for another %s: %w", g.name, wait.Round(time.Second), g.cause)}
	}
	patience := regionPatience
	if g.failures >= regionFailures {
		patience = min(regionTrial<<min(g.failures-regionFailures, 10), regionPatience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("region %s does not answer within %s: %w", g.name, patience, context.DeadlineExceeded))
	return ctx, cancel, nil
}

// leave takes note of how it went: err is nil when the region answers at all.
func (g *regionGate) leave(began time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if err == nil {
		g.failures = 0
		return
	}
	if g.failures++; now.Sub(began) >= regionSlow {
		g.failures = max(g.failures, regionFailures)
	}
	if g.failures >= regionFailures {
		g.until, g.cause = now.Add(regionPause), err
	}
}

// askRegion asks one region about n things. ask's answers match what it was asked.
func askRegion[T any](ctx context.Context, g *regionGate, n int, ask func(context.Context) []cloud.Result[T]) []cloud.Result[T] {
	inner, cancel, err := g.enter(ctx)
	if err != nil {
		return failAll[T](n, err)
	}
	defer cancel()
	began := g.now()
	out := ask(inner)
	if ctx.Err() == nil { // whoever gives up says nothing about the region
		g.leave(began, outage(out))
	}
	for k := range out {
		switch err := out[k].Err; {
		case err == nil:
		case cloud.KindOf(err) == cloud.KindThrottled:
			out[k].Err = &cloud.Error{Kind: cloud.KindRetryAfter, Op: "region " + g.name, RetryAfter: cloud.RetryAfter(err), Err: err}
		default:
			out[k].Err = fmt.Errorf("region %s: %w", g.name, err)
		}
	}
	return out
}

// outage returns the error that speaks for a region that does not work: no answer about
// everything.
func outage[T any](results []cloud.Result[T]) error {
	var silent error
	works := false
	for _, r := range results {
		if isNoAnswer(r.Err) {
			silent = r.Err
		} else {
			works = true
		}
	}
	if works {
		return nil
	}
	return silent
}
