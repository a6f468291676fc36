package decorate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func testTraffic(t *testing.T, m *Metrics) *Traffic {
	t.Helper()
	traffic, err := NewTraffic("fake", Options{Metrics: m, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// After a Retry-After no request to that service at that place goes before its end, whoever was
// refused, and however often they ask it is no attempt. All other requests go at once.
func TestThrottlingHoldsOneServiceAtOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCaller(t, Options{})
		traffic := testTraffic(t, c.metrics)
		const wait = 20 * time.Second
		began := time.Now()
		var mu sync.Mutex
		sent := map[string][]time.Duration{}
		request := func(family, place string) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := traffic.Admit(ctx, family, place); err != nil {
					return fmt.Errorf("get something: %w", err)
				}
				mu.Lock()
				defer mu.Unlock()
				key := family + "@" + place
				sent[key] = append(sent[key], time.Since(began))
				if key == "lb@one" && len(sent[key]) == 1 {
					traffic.Refused(family, place, wait)
					return &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: wait, Err: errors.New("429")}
				}
				return nil
			}
		}
		var wg sync.WaitGroup
		call := func(op operation, family, place string) {
			op.patient = true
			wg.Go(func() {
				if err := c.do(t.Context(), op, request(family, place)); err != nil {
					t.Error(err)
				}
			})
		}
		call(changeOp, "lb", "one")
		synctest.Wait()
		time.Sleep(time.Millisecond)
		for range 20 {
			call(readOp, "lb", "one")
			call(changeOp, "lb", "one")
			call(readOp, "compute", "one")
			call(changeOp, "lb", "two")
		}
		wg.Wait()
		for key, at := range sent {
			for n, d := range at {
				if held := key == "lb@one" && n > 0; held && (d < wait || d > wait+2*throttleSpread) || !held && d > time.Millisecond {
					t.Errorf("request %d to %s went after %v", n, key, d)
				}
			}
		}
		if len(sent["lb@one"]) != 42 || len(sent["compute@one"]) != 20 || len(sent["lb@two"]) != 20 {
			t.Errorf("%d, %d and %d requests", len(sent["lb@one"]), len(sent["compute@one"]), len(sent["lb@two"]))
		}
		if waited := value(t, c.metrics.throttleWait.WithLabelValues("fake")); waited < 41*19 {
			t.Errorf("a throttle wait of %v s was counted", waited)
		}
	})
}

func TestTrafficBoundsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := testTraffic(t, nil)
		admit := func(ctx context.Context) error { return traffic.Admit(ctx, "lb", "one") }
		began := time.Now()
		traffic.Refused("lb", "one", 0)
		if err := admit(t.Context()); err != nil || time.Since(began) < throttleDefault {
			t.Errorf("without a Retry-After it waited %v, %v", time.Since(began), err)
		}
		traffic.Refused("lb", "one", throttleBrief)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := admit(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the asker left: %v", err)
		}
		traffic.Refused("lb", "one", 1000*time.Hour)
		traffic.Refused("lb", "one", time.Second) // a shorter wait opens nothing
		err := admit(t.Context())
		if cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != throttleMax || !strings.Contains(err.Error(), "lb at one: not asked, as it throttles for another 5m0s") {
			t.Errorf("by an absurd Retry-After: %v", err)
		}
		time.Sleep(throttleMax)
		traffic.Refused("lb", "two", time.Minute)
		if err := admit(t.Context()); err != nil || len(traffic.until) != 1 {
			t.Errorf("afterwards: %v; remembered are %v", err, traffic.until)
		}
	})
}
