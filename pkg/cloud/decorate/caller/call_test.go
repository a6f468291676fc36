package caller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func testCaller(t *testing.T, o Options) *Caller {
	t.Helper()
	if o.Metrics == nil {
		o.Metrics = newMetrics(t)
	}
	o.Clock = clock.RealClock{}
	c, err := New("fake", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var readOp, changeOp = Operation{Ability: "instances", Name: "get", Patient: true}, Operation{Ability: "routes", Name: "apply", Mutation: true}

func TestRetryByKind(t *testing.T) {
	for _, test := range []struct {
		kind           cloud.Kind
		reads, changes int
	}{
		{kind: cloud.KindUnknown, reads: 4, changes: 3},
		{kind: cloud.KindUnavailable, reads: 4, changes: 3},
		{kind: cloud.KindStale, reads: 4, changes: 3},
		{kind: cloud.KindThrottled, reads: 4, changes: 3},
		{kind: cloud.KindNotFound, reads: 1, changes: 1},
		{kind: cloud.KindDenied, reads: 1, changes: 1},
		{kind: cloud.KindUnsupported, reads: 1, changes: 1},
		{kind: cloud.KindInvalid, reads: 1, changes: 1},
		{kind: cloud.KindConflict, reads: 1, changes: 1},
		{kind: cloud.KindRetryAfter, reads: 1, changes: 1},
		{kind: cloud.KindQuota, reads: 1, changes: 1},
		{kind: cloud.KindFailed, reads: 1, changes: 1},
	} {
		for op, want := range map[Operation]int{readOp: test.reads, changeOp: test.changes} {
			t.Run(fmt.Sprint(test.kind, " ", op.Name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := testCaller(t, Options{})
					attempts := 0
					err := c.Do(t.Context(), op, func(context.Context) error {
						attempts++
						return &cloud.Error{Kind: test.kind, Op: "get server 1", RetryAfter: 2 * time.Second, Err: errors.New("no")}
					})
					if attempts != want {
						t.Errorf("%d attempts, want %d", attempts, want)
					}
					if cloud.KindOf(err) != test.kind || cloud.RetryAfter(err) != 2*time.Second {
						t.Errorf("the error lost its kind or wait: %v", err)
					}
					if want > 1 && !strings.Contains(err.Error(), fmt.Sprintf("gave up after %d attempts", want)) {
						t.Errorf("the error does not say that it was tried again: %v", err)
					}
					wantMetric(t, c.Metrics.calls.WithLabelValues("fake", op.Ability, op.Name, test.kind.String()), float64(want))
					wantMetric(t, c.Metrics.retries.WithLabelValues("fake", op.Ability, op.Name, test.kind.String()), float64(want-1))
					wantMetric(t, c.Metrics.inFlight.WithLabelValues("fake", op.Ability, op.Name), 0)
				})
			})
		}
	}
}

func TestRetrySucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCaller(t, Options{})
		attempts := 0
		err := c.Do(t.Context(), readOp, func(context.Context) error {
			if attempts++; attempts < 3 {
				return errors.New("connection reset")
			}
			return nil
		})
		if err != nil || attempts != 3 {
			t.Errorf("%d attempts, %v", attempts, err)
		}
		wantMetric(t, c.Metrics.calls.WithLabelValues("fake", "instances", "get", "OK"), 1)
	})
}

func TestDeadline(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, test := range []struct {
		name     string
		op       Operation
		attempt  func(context.Context) error
		reads    Policy
		caller   time.Duration
		min, max time.Duration
	}{
		{name: "read hangs", op: readOp, attempt: hang, min: 3 * time.Minute, max: 3 * time.Minute},
		{name: "mutation hangs", op: changeOp, attempt: hang, min: 3 * time.Minute, max: 3 * time.Minute},
		{name: "caller leaves", op: readOp, attempt: hang, caller: time.Second, min: time.Second, max: time.Second},
		{name: "caller leaves between attempts", op: readOp, caller: time.Second, min: time.Second, max: time.Second,
			reads:   Policy{Attempts: 1000, BackoffBase: time.Hour},
			attempt: func(context.Context) error { return errors.New("500") }},
		{name: "many quick attempts", op: readOp, max: 3 * time.Minute, reads: Policy{Attempts: 1000000, BackoffBase: 20 * time.Second},
			min: 3 * time.Minute, attempt: func(context.Context) error { return errors.New("500") }},
		{name: "all attempts used", op: readOp, max: 3500 * time.Millisecond,
			attempt: func(context.Context) error { return errors.New("500") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := testCaller(t, Options{Reads: test.reads})
				ctx := t.Context()
				if test.caller > 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, test.caller)
					defer cancel()
				}
				began := time.Now()
				err := c.Do(ctx, test.op, test.attempt)
				if err == nil || cloud.KindOf(err) != cloud.KindUnknown {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took < test.min || took > test.max {
					t.Errorf("took %v, want %v to %v (%v)", took, test.min, test.max, err)
				}
			})
		})
	}
}

func TestBackoffIsFullJitter(t *testing.T) {
	p := Policy{}.withDefaults(4)
	for n, ceiling := range []time.Duration{1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 6: 10 * time.Second, 100: 10 * time.Second} {
		if ceiling == 0 {
			continue
		}
		var low, high bool
		for range 1000 {
			d := p.backoff(n)
			if d < 0 || d > ceiling {
				t.Fatalf("backoff(%d) = %v, want at most %v", n, d, ceiling)
			}
			low, high = low || d < ceiling/4, high || d > ceiling*3/4
		}
		if !low || !high {
			t.Errorf("backoff(%d) is not spread up to %v", n, ceiling)
		}
	}
}

// Only what failed in a way that may pass is asked again, and answers stay in order.
func TestBatchRetriesOnlyWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCaller(t, Options{})
		var asked [][]int
		results := Batch(t.Context(), c, readOp, []int{1, 2, 3, 4, 5, 6}, func(_ context.Context, keys []int) []cloud.Result[int] {
			asked = append(asked, keys)
			out := make([]cloud.Result[int], len(keys))
			for k, key := range keys {
				switch {
				case key == 2:
					out[k].Err = cloud.Errorf(cloud.KindNotFound, "2")
				case key == 3:
					out[k].Err = cloud.Errorf(cloud.KindDenied, "3")
				case key == 4 && len(asked) < 3, key == 6:
					out[k].Err = fmt.Errorf("key %d", key)
				default:
					out[k].Value = key * 10
				}
			}
			return out
		})
		if diff := cmp.Diff([][]int{{1, 2, 3, 4, 5, 6}, {4, 6}, {4, 6}, {6}}, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		var got []string
		for _, r := range results {
			got = append(got, fmt.Sprint(r.Value, " ", cloud.KindOf(r.Err), " ", r.Err))
		}
		want := []string{"10 Unknown <nil>", "0 NotFound 2", "0 Denied 3", "40 Unknown <nil>", "50 Unknown <nil>", "0 Unknown key 6"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		wantMetric(t, c.Metrics.batchSize.WithLabelValues("fake", "instances", "get"), 4)
	})
}

// A call that is throttled waits as long as the cloud asked for, and is given up at once where
// that is longer than it may take.
func TestThrottledCallWaitsAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCaller(t, Options{})
		throttled := func(wait time.Duration) error {
			return &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: wait, Err: errors.New("429")}
		}
		began, attempts := time.Now(), 0
		err := c.Do(t.Context(), readOp, func(context.Context) error {
			if attempts++; attempts == 1 {
				return throttled(20 * time.Second)
			}
			return nil
		})
		if took := time.Since(began); err != nil || attempts != 2 || took < 20*time.Second || took > 20*time.Second+throttleSpread {
			t.Errorf("%d attempts in %v, %v", attempts, took, err)
		}
		if waited := value(t, c.Metrics.throttleWait.WithLabelValues("fake")); waited < 20 {
			t.Errorf("a throttle wait of %v s was counted", waited)
		}
		began = time.Now()
		results := Batch(t.Context(), c, readOp, []int{1, 2}, func(_ context.Context, keys []int) []cloud.Result[int] {
			return []cloud.Result[int]{{Err: throttled(time.Hour)}, {Err: throttled(time.Hour)}}
		})
		for _, r := range results {
			if cloud.KindOf(r.Err) != cloud.KindThrottled || cloud.RetryAfter(r.Err) != time.Hour {
				t.Errorf("got %v", r.Err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to give up", took)
		}
	})
}

// Who comes back by itself does not wait, and what a batch has answered is not held back by
// what another place throttles.
func TestThrottledCallHoldsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := testCaller(t, Options{}), time.Now()
		throttled := &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: 20 * time.Second, Err: errors.New("429")}
		if err := c.Do(t.Context(), changeOp, func(context.Context) error { return throttled }); cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != throttled.RetryAfter {
			t.Errorf("a change: %v", err)
		}
		results := Batch(t.Context(), c, readOp, []int{1, 2}, func(_ context.Context, keys []int) []cloud.Result[int] {
			return []cloud.Result[int]{{Value: 1}, {Err: throttled}}
		})
		if results[0].Err != nil || cloud.KindOf(results[1].Err) != cloud.KindThrottled {
			t.Errorf("a batch of two places: %v", results)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("they waited %v", took)
		}
	})
}

// A batch is judged by what of it failed, and "not found" is an answer: neither a failure nor a reason to ask again.
func TestBatchIsJudgedByItsWorstAnswer(t *testing.T) {
	for want, kinds := range map[string][]cloud.Kind{
		"OK": {cloud.KindNotFound, cloud.KindNotFound}, "Denied": {cloud.KindNotFound, cloud.KindDenied}, "Invalid": {cloud.KindInvalid},
		"Unknown": {cloud.KindDenied, cloud.KindUnknown, cloud.KindNotFound}, "Unavailable": {cloud.KindDenied, cloud.KindUnavailable},
		"Stale": {cloud.KindQuota, cloud.KindStale}, "Throttled": {cloud.KindUnknown, cloud.KindThrottled, cloud.KindDenied},
	} {
		c, calls := testCaller(t, Options{Reads: Policy{Attempts: 1}}), 0
		Batch(t.Context(), c, readOp, kinds, func(_ context.Context, kinds []cloud.Kind) []cloud.Result[int] {
			calls++
			out := make([]cloud.Result[int], len(kinds))
			for k, kind := range kinds {
				out[k].Err = cloud.Errorf(kind, "no")
			}
			return out
		})
		if calls != 1 {
			t.Errorf("%v: %d calls", kinds, calls)
		}
		wantMetric(t, c.Metrics.calls.WithLabelValues("fake", "instances", "get", want), 1)
	}
}
