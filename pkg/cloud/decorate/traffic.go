package decorate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// throttleDefault is how long is waited where the cloud did not say.
	throttleDefault = time.Second
	// throttleMax bounds how long is waited, whatever the cloud says.
	throttleMax = 5 * time.Minute
	// throttleSpread bounds how far apart those who waited start again.
	throttleSpread = time.Second
	// throttleBrief is how long a request waits in the middle of an operation. What takes longer
	// fails, and the operation is begun anew.
	throttleBrief = 2 * time.Second
)

// errNotAdmitted is the error of a request that was not sent.
var errNotAdmitted = errors.New("not asked, as it throttles")

// Traffic implements cloud.Traffic with a gate for each family at each place.
type Traffic struct {
	provider string
	clock    clock.Clock
	metrics  *Metrics

	mu    sync.Mutex
	until map[gate]time.Time // when it opens; those that have opened go with the next that shuts
}

// gate is what is throttled by itself.
type gate struct{ family, place string }

var _ cloud.Traffic = (*Traffic)(nil)

// NewTraffic makes the Traffic of the provider of that name; of o, Metrics and Clock count.
func NewTraffic(provider string, o Options) (*Traffic, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Traffic{provider: provider, clock: o.Clock, metrics: o.Metrics, until: map[gate]time.Time{}}, nil
}

// Refused implements cloud.Traffic. A gate that is shut for longer stays so.
func (t *Traffic) Refused(family, place string, wait time.Duration) {
	now := t.clock.Now()
	until := now.Add(bounded(wait))
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.until, func(_ gate, until time.Time) bool { return !until.After(now) })
	if key := (gate{family, place}); until.After(t.until[key]) {
		t.until[key] = until
	}
}

// Admit implements cloud.Traffic.
func (t *Traffic) Admit(ctx context.Context, family, place string) error {
	for {
		d := t.remaining(gate{family, place})
		if d <= 0 {
			return nil
		}
		if d > throttleBrief {
			return &cloud.Error{Kind: cloud.KindThrottled, Op: family + " at " + place, RetryAfter: d,
				Err: fmt.Errorf("%w for another %s", errNotAdmitted, d.Round(time.Millisecond))}
		}
		began := t.clock.Now()
		err := sleep(ctx, t.clock, spread(d))
		t.metrics.throttleWait.WithLabelValues(t.provider).Add(t.clock.Since(began).Seconds())
		if err != nil {
			return err
		}
	}
}

// remaining is how long the gate stays shut.
func (t *Traffic) remaining(g gate) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until[g].Sub(t.clock.Now())
}

// bounded is the wait that a cloud asked for, within reason.
func bounded(wait time.Duration) time.Duration {
	if wait <= 0 {
		return throttleDefault
	}
	return min(wait, throttleMax)
}

// spread lets those who wait for the same end go one after the other.
func spread(wait time.Duration) time.Duration {
	return wait + rand.N(min(wait/10, throttleSpread)+1)
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
