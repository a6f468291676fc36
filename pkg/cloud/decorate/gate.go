package decorate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// throttleDefault is how long a throttled provider is left alone when it did not say.
	throttleDefault = time.Second
	// throttleMax bounds how long a provider is left alone, whatever it says.
	throttleMax = 5 * time.Minute
	// throttleSpread bounds how far apart those who waited start again.
	throttleSpread = time.Second
)

// gate holds back every call of one provider after it has asked for patience, so that not
// each caller has to be refused by itself.
type gate struct {
	clock clock.Clock

	mu    sync.Mutex
	until time.Time
}

// shut closes the gate for d from now; a longer closure stays.
func (g *gate) shut(d time.Duration) {
	if d <= 0 {
		d = throttleDefault
	}
	until := g.clock.Now().Add(min(d, throttleMax))
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// remaining is how long the gate stays shut.
func (g *gate) remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until.Sub(g.clock.Now())
}

// pass waits until the gate is open and returns how long that took. When it opens only
// after ctx's deadline, pass fails at once, with KindThrottled.
func (g *gate) pass(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	d := g.remaining()
	if d <= 0 {
		return 0, nil
	}
	began := g.clock.Now()
	for ; d > 0; d = g.remaining() {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
			return g.clock.Since(began), &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: d,
				Err: errors.New("not tried: the cloud throttles and asked to wait longer than this call may take")}
		}
		spread := rand.N(min(d/10, throttleSpread) + 1)
		if err := sleep(ctx, g.clock, d+spread); err != nil {
			return g.clock.Since(began), err
		}
	}
	return g.clock.Since(began), nil
}

// sleep waits d or until ctx ends, whose cause it then returns.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
