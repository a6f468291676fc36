package backoff

import (
	"math"
	"net/http"
	"testing"
	"time"
)

func TestDoublingEndsAtItsBound(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000: 10 * time.Second, math.MaxInt: 10 * time.Second,
	} {
		if got := Doubling(time.Second, 10*time.Second, failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
	if got := Doubling(time.Minute, time.Second, 1); got != time.Second {
		t.Errorf("a bound below the first wait: %v", got)
	}
}

func TestJitterIsSpreadBetweenItsBounds(t *testing.T) {
	var low, high bool
	for range 1000 {
		d := Jitter(time.Second, 2*time.Second)
		if d < time.Second || d > 2*time.Second {
			t.Fatal(d)
		}
		low, high = low || d < 1250*time.Millisecond, high || d > 1750*time.Millisecond
	}
	if !low || !high || Jitter(time.Second, time.Second) != time.Second || Jitter(time.Second, 0) != time.Second {
		t.Error("not spread, or not where there is nothing to spread")
	}
}

func TestAskedReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "soon": 0, "NaN": 0, "7": 7 * time.Second, " 1.5 ": 1500 * time.Millisecond, "1e300": time.Hour, "+Inf": time.Hour, "7200": time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.Add(48 * time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		if got := Asked(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
	if got := Asked(nil, now); got != 0 {
		t.Errorf("no header: %v", got)
	}
}
