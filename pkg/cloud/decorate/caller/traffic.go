package caller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
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
	// queueMost is how long it waits for its turn while a family's rate is limited.
	queueMost = 10 * time.Second
	// rateLeast is the least limit, in requests a second; what needs less is told by Retry-After.
	rateLeast = 4
	// recovery is in how much time a limit grows by what it was at first. After recovered it goes.
	recovery, recovered = 30 * time.Second, 5 * 30 * time.Second
)

// errNotAdmitted is the error of a request that was not sent.
var errNotAdmitted = errors.New("not asked, as it throttles")

// Traffic implements cloud.Traffic: each family at each place by itself. One that the cloud
// refuses is shut for as long as it says; then it has half the rate that it had, which grows again.
// Requests that change the cloud are logged at level 2, in lines of less than 1 KB, with what the
// cloud calls them.
type Traffic struct {
	provider string
	clock    clock.Clock
	metrics  *Metrics

	mu    sync.Mutex
	gates map[gateKey]*gate // those not used for long go with the next that comes
}

// gateKey is what is throttled by itself.
type gateKey struct{ family, place string }

// gate is the state of one. It has no lock.
type gate struct {
	until time.Time // shut
	// limit is how many requests a second went at halved; 0 is no limit.
	limit  float64
	halved time.Time
	next   time.Time // when the next has its turn, where there is a limit
	// second is when the newer of two seconds began, in which so many requests were sent.
	second        time.Time
	before, since int
}

var _ cloud.Traffic = (*Traffic)(nil)

// NewTraffic makes the Traffic of the provider of that name; of o, Metrics and Clock count.
func NewTraffic(provider string, o Options) (*Traffic, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Traffic{provider: provider, clock: o.Clock, metrics: o.Metrics, gates: map[gateKey]*gate{}}, nil
}

// Begin implements cloud.Traffic.
func (t *Traffic) Begin(ctx context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	key := gateKey{r.Family, r.Place}
	if err := t.admit(ctx, key); err != nil {
		return nil, err
	}
	began := t.clock.Now()
	_, span := tracing.Start(ctx, "cloud request")
	span.Set(tracing.Cloud, t.provider)
	span.Set(tracing.Family, r.Family)
	span.Set(tracing.Place, r.Place)
	span.Set(tracing.Operation, r.Op)
	return func(o cloud.Outcome) {
		finish(span, o)
		took := t.clock.Since(began)
		t.metrics.requests.WithLabelValues(t.provider, r.Family, r.Op, strconv.Itoa(o.Status)).Inc()
		t.metrics.requestTime.WithLabelValues(t.provider, r.Family, r.Op).Observe(took.Seconds())
		if o.Throttled {
			t.refused(key, began, bounded(o.RetryAfter))
		}
		if r.Mutates {
			klog.FromContext(ctx).V(2).Info("Asked the cloud for a change", "provider", t.provider, "service", text.Line(r.Family, 50), "place", text.Line(r.Place, 150),
				"operation", text.Line(r.Op, 50), "object", text.Line(r.Object, 300), "status", o.Status, "requestID", text.Line(o.RequestID, 100), "took", took)
		}
	}, nil
}

// Family is the state of what is throttled by itself.
type Family struct {
	// Name and Place are a Request's Family and Place.
	Name, Place string
	// PerSecond is how many requests were sent in the last second, Limit how many may be, 0 for no limit.
	PerSecond int
	Limit     float64
	// ShutUntil is until when none may be sent; zero for now.
	ShutUntil time.Time
}

// Families returns those that were asked lately, in no order.
func (t *Traffic) Families() []Family {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, out := t.clock.Now(), make([]Family, 0, len(t.gates))
	for key, g := range t.gates {
		f := Family{Name: key.family, Place: key.place, Limit: g.rate(now)}
		switch since := now.Sub(g.second); {
		case since < time.Second:
			f.PerSecond = max(g.before, g.since)
		case since < 2*time.Second:
			f.PerSecond = g.since
		}
		if g.until.After(now) {
			f.ShutUntil = g.until
		}
		out = append(out, f)
	}
	return out
}

// finish ends the span of a request.
func finish(span tracing.Span, o cloud.Outcome) {
	span.SetInt(tracing.Status, o.Status)
	span.Set(tracing.RequestID, o.RequestID)
	switch {
	case o.Throttled:
		span.Fail("Throttled")
	case o.Status == 0:
		span.Fail("NoAnswer")
	}
	span.End()
}

// admit waits until a request may go, if that is soon.
func (t *Traffic) admit(ctx context.Context, key gateKey) error {
	for {
		shut, turn := t.turn(key)
		switch {
		case shut > throttleBrief, turn > queueMost:
			d := max(shut, turn)
			return &cloud.Error{Kind: cloud.KindThrottled, Op: key.family + " at " + key.place, RetryAfter: d,
				Err: fmt.Errorf("%w for another %s", errNotAdmitted, d.Round(time.Millisecond))}
		case shut > 0:
			shut = spread(shut)
		case turn == 0:
			return nil
		}
		began := t.clock.Now()
		err := backoff.Sleep(ctx, t.clock, shut+turn)
		t.metrics.throttleWait.WithLabelValues(t.provider).Add(t.clock.Since(began).Seconds())
		if err != nil || shut == 0 && !t.isShut(key) {
			return err
		}
	}
}

// turn is for how long the gate is shut, or else how long a request waits for its turn, which it
// has got if that is not too long.
func (t *Traffic) turn(key gateKey) (shut, turn time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, g := t.clock.Now(), t.gates[key]
	if g == nil {
		maps.DeleteFunc(t.gates, func(_ gateKey, g *gate) bool { return now.Sub(g.second) > recovered && !g.until.After(now) })
		g = &gate{}
		t.gates[key] = g
	}
	if shut = g.until.Sub(now); shut > 0 {
		return shut, 0
	}
	if rate := g.rate(now); rate > 0 {
		if turn = max(g.next.Sub(now), 0); turn > queueMost {
			return 0, turn
		}
		g.next = now.Add(turn + time.Duration(float64(time.Second)/rate))
	}
	g.count(now)
	return 0, turn
}

func (t *Traffic) isShut(key gateKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gates[key] != nil && t.gates[key].until.After(t.clock.Now())
}

// refused shuts the gate, one that is shut for longer stays so, and halves the rate: once for all
// requests that were under way together.
func (t *Traffic) refused(key gateKey, began time.Time, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, g := t.clock.Now(), t.gates[key]
	if g == nil { // gone meanwhile
		g = &gate{}
		t.gates[key] = g
	}
	if until := now.Add(wait); until.After(g.until) {
		g.until = until
	}
	if g.halved.IsZero() || began.After(g.halved) {
		rate := g.rate(now)
		if rate == 0 {
			rate = float64(max(g.before, g.since))
		}
		g.limit, g.halved, g.next = max(rate/2, rateLeast), now, time.Time{}
	}
}

// rate is how many requests a second may go now; 0 is no limit.
func (g *gate) rate(now time.Time) float64 {
	open := max(min(now.Sub(g.halved), now.Sub(g.until)), 0)
	if g.limit == 0 || open > recovered {
		return 0
	}
	return g.limit * (1 + open.Seconds()/recovery.Seconds())
}

// count counts a request.
func (g *gate) count(now time.Time) {
	switch since := now.Sub(g.second); {
	case since >= 2*time.Second:
		g.second, g.before, g.since = now, 0, 0
	case since >= time.Second:
		g.second, g.before, g.since = now, g.since, 0
	}
	g.since++
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
	return backoff.Jitter(wait, wait+min(wait/10, throttleSpread))
}
