package caller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
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
// refused, and however often they ask it is no attempt. Then they go one after the other. All other
// requests go at once.
func TestThrottlingHoldsOneServiceAtOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCaller(t, Options{})
		traffic := testTraffic(t, c.Metrics)
		const wait, queue = 20 * time.Second, 41 * time.Second / rateLeast
		began := time.Now()
		var mu sync.Mutex
		sent := map[string][]time.Duration{}
		request := func(family, place string) func(context.Context) error {
			return func(ctx context.Context) error {
				end, err := traffic.Begin(ctx, cloud.Request{Family: family, Place: place})
				if err != nil {
					return fmt.Errorf("get something: %w", err)
				}
				mu.Lock()
				defer mu.Unlock()
				key := family + "@" + place
				sent[key] = append(sent[key], time.Since(began))
				if key == "lb@one" && len(sent[key]) == 1 {
					end(cloud.Outcome{Status: 429, Throttled: true, RetryAfter: wait})
					return &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: wait, Err: errors.New("429")}
				}
				end(cloud.Outcome{Status: 200})
				return nil
			}
		}
		var wg sync.WaitGroup
		call := func(op Operation, family, place string) {
			op.Patient = true
			wg.Go(func() {
				if err := c.Do(t.Context(), op, request(family, place)); err != nil {
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
				if held := key == "lb@one" && n > 0; held && (d < wait || d > wait+queue+throttleSpread) || !held && d > time.Millisecond {
					t.Errorf("request %d to %s went after %v", n, key, d)
				}
			}
		}
		if len(sent["lb@one"]) != 42 || len(sent["compute@one"]) != 20 || len(sent["lb@two"]) != 20 {
			t.Errorf("%d, %d and %d requests", len(sent["lb@one"]), len(sent["compute@one"]), len(sent["lb@two"]))
		}
		if waited := value(t, c.Metrics.throttleWait.WithLabelValues("fake")); waited < 41*19 {
			t.Errorf("a throttle wait of %v s was counted", waited)
		}
	})
}

// A family that was refused is shut, then limited, then free again; another one is free all the time.
func TestFamiliesSayHowOftenTheyMayBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := testTraffic(t, newMetrics(t))
		request := func(family string, outcome cloud.Outcome) {
			end, err := traffic.Begin(t.Context(), cloud.Request{Family: family, Place: "r1"})
			if err != nil {
				t.Fatal(err)
			}
			end(outcome)
		}
		expect := func(when string, lb, compute Family) {
			t.Helper()
			got := traffic.Families()
			slices.SortFunc(got, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
			if diff := cmp.Diff([]Family{compute, lb}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		for range 20 {
			request("lb", cloud.Outcome{Status: 200})
		}
		request("compute", cloud.Outcome{Status: 200})
		time.Sleep(time.Millisecond)
		request("lb", cloud.Outcome{Status: 429, Throttled: true, RetryAfter: 30 * time.Second})
		now := time.Now()
		expect("refused", Family{"lb", "r1", 21, 10.5, now.Add(30 * time.Second)}, Family{"compute", "r1", 1, 0, time.Time{}})
		time.Sleep(60 * time.Second)
		expect("open again", Family{"lb", "r1", 0, 21, time.Time{}}, Family{"compute", "r1", 0, 0, time.Time{}})
		time.Sleep(2 * recovered)
		expect("recovered", Family{"lb", "r1", 0, 0, time.Time{}}, Family{"compute", "r1", 0, 0, time.Time{}})
	})
}

// sentIn is how many requests go in a time that has as many as want to.
func sentIn(t *testing.T, traffic *Traffic, family string, d time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for n := 0; ; n++ {
		end, err := traffic.Begin(ctx, cloud.Request{Family: family})
		if err != nil || ctx.Err() != nil {
			return n
		}
		end(cloud.Outcome{Status: 200})
		time.Sleep(10 * time.Millisecond) // what one takes
	}
}

// A family that was refused goes on with half the rate that it had, once for all that were refused
// together, and recovers slowly; others keep theirs.
func TestRefusedFamilyHalvesItsRateAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := testTraffic(t, nil)
		const full = 100
		if n := sentIn(t, traffic, "lb", 3*time.Second); n < 3*full {
			t.Fatalf("%d requests in 3 s before", n)
		}
		var ends []func(cloud.Outcome)
		for range 10 {
			end, err := traffic.Begin(t.Context(), cloud.Request{Family: "lb"})
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		for _, end := range ends {
			end(cloud.Outcome{Status: 429, Throttled: true, RetryAfter: time.Second})
		}
		time.Sleep(time.Second)
		if n := sentIn(t, traffic, "lb", 2*time.Second); n < full*9/10 || n > full*5/4 {
			t.Errorf("%d requests in 2 s afterwards, want half of %d a second", n, full)
		}
		if n := sentIn(t, traffic, "compute", 2*time.Second); n < 2*full {
			t.Errorf("%d requests of another family in 2 s", n)
		}
		time.Sleep(recovery)
		if n := sentIn(t, traffic, "lb", time.Second); n < full*9/10 {
			t.Errorf("%d requests in 1 s when it has recovered, want %d", n, full)
		}
		for range 4 { // refused again and again
			end, err := traffic.Begin(t.Context(), cloud.Request{Family: "lb"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			end(cloud.Outcome{Status: 429, Throttled: true})
			time.Sleep(2 * time.Second)
		}
		if n := sentIn(t, traffic, "lb", time.Second); n < rateLeast || n > full/4 {
			t.Errorf("%d requests in 1 s after four more refusals", n)
		}
		time.Sleep(recovered)
		if n := sentIn(t, traffic, "lb", time.Second); n < full {
			t.Errorf("%d requests in 1 s long after, want %d", n, full)
		}
		time.Sleep(2 * recovered)
		if sentIn(t, traffic, "image", time.Second); len(traffic.gates) > 1 {
			t.Errorf("remembered are %v", traffic.gates)
		}
	})
}

func TestTrafficBoundsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := testTraffic(t, nil)
		key := gateKey{"lb", "one"}
		refused := func(wait time.Duration) { traffic.refused(key, time.Now(), bounded(wait)) }
		admit := func(ctx context.Context) error { return traffic.admit(ctx, key) }
		began := time.Now()
		refused(0)
		if err := admit(t.Context()); err != nil || time.Since(began) < throttleDefault {
			t.Errorf("without a Retry-After it waited %v, %v", time.Since(began), err)
		}
		refused(throttleBrief)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := admit(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the asker left: %v", err)
		}
		refused(1000 * time.Hour)
		refused(time.Second) // a shorter wait opens nothing
		err := admit(t.Context())
		if cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) != throttleMax || !strings.Contains(err.Error(), "lb at one: not asked, as it throttles for another 5m0s") {
			t.Errorf("by an absurd Retry-After: %v", err)
		}
		time.Sleep(throttleMax)
		var queued sync.WaitGroup
		var mu sync.Mutex
		late := 0
		for range 2 * rateLeast * int(queueMost/time.Second) {
			queued.Go(func() {
				if err := admit(t.Context()); cloud.KindOf(err) == cloud.KindThrottled && cloud.RetryAfter(err) > 0 {
					mu.Lock()
					defer mu.Unlock()
					late++
				}
			})
		}
		queued.Wait()
		if waited := time.Since(began) - throttleMax - 2*time.Second; late == 0 || waited > queueMost+throttleMax {
			t.Errorf("%d are told to come again, %v waited", late, waited)
		}
	})
}

// Each request that changes the cloud is one line in the log, with the cloud's own name of it,
// whatever came of it; reads are none.
func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(2), textlogger.Output(&log))))
	traffic := testTraffic(t, nil)
	for _, r := range []struct {
		cloud.Request
		cloud.Outcome
	}{
		{cloud.Request{Family: "network", Op: "GET", Object: "/read"}, cloud.Outcome{Status: 200}},
		{cloud.Request{Family: "network", Place: "https://n", Op: "POST", Object: "/v2.0/ports", Mutates: true}, cloud.Outcome{Status: 201, RequestID: "req-1"}},
		{cloud.Request{Family: strings.Repeat("f", 5000), Place: strings.Repeat("p", 5000), Op: strings.Repeat("o", 5000), Object: strings.Repeat("x", 5000), Mutates: true},
			cloud.Outcome{RequestID: strings.Repeat("r", 5000)}},
	} {
		end, err := traffic.Begin(ctx, r.Request)
		if err != nil {
			t.Fatal(err)
		}
		end(r.Outcome)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || len(lines[1]) > 1024 {
		t.Fatalf("%d lines, the last of %d bytes:\n%s", len(lines), len(lines[len(lines)-1]), log.String())
	}
	for _, want := range []string{`"network"`, `"https://n"`, `"POST"`, `"/v2.0/ports"`, "status=201", `"req-1"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s does not say %s", lines[0], want)
		}
	}
}

// A call that fails is one line in the log, which has the cloud's own name of the request, for its operators; not found is an answer.
func TestFailuresAreLoggedWithTheRequestID(t *testing.T) {
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(2), textlogger.Output(&log))))
	c := testCaller(t, Options{})
	for _, err := range []error{
		&cloud.Error{Kind: cloud.KindNotFound, RequestID: "req-0", Err: errors.New("gone")},
		&cloud.Error{Kind: cloud.KindDenied, RequestID: "req-1", Err: errors.New("get port: 403")},
		&cloud.Error{Kind: cloud.KindDenied, RequestID: "req-2\nE0000 forged" + strings.Repeat("r", 5000), Err: errors.New("403\x1b[2J\nE0000 forged" + strings.Repeat("x", 5000))},
	} {
		if got := c.Do(ctx, readOp, func(context.Context) error { return err }); cloud.RequestIDOf(got) != cloud.RequestIDOf(err) {
			t.Errorf("%v has lost the request's name", got)
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || len(lines[1]) > 1024 || strings.Contains(log.String(), "\x1b") {
		t.Fatalf("%d lines, the last of %d bytes:\n%q", len(lines), len(lines[len(lines)-1]), log.String())
	}
	for _, want := range []string{`"fake"`, `"instances"`, `"get"`, `requestID="req-1"`, `"get port: 403"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s does not say %s", lines[0], want)
		}
	}
}
