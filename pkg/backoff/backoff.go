// Package backoff is how long to wait before another try: longer after each failure in a row,
// and as long as the other side asks for.
//
// It does not try anything: who does has a reason.
package backoff

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// maxAsked caps the wait that another side may ask for.
const maxAsked = time.Hour

// Doubling is first after one failure, and twice as much after each further one, at most most.
func Doubling(first, most time.Duration, failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	if n := failures - 1; n < 40 && first <= most>>n {
		return first << n
	}
	return most
}

// Jitter is a random time from least to most, so that what failed together does not come back
// together.
func Jitter(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + rand.N(most-least+1) //nolint:gosec // no secret
}

// Asked is the wait that the header Retry-After asks for, in seconds or as a date; an hour at
// most. Zero when there is none or it makes no sense.
func Asked(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	var d time.Duration
	if seconds, err := strconv.ParseFloat(v, 64); err == nil {
		if !(seconds > 0) { // also NaN
			return 0
		}
		d = maxAsked
		if seconds < maxAsked.Seconds() {
			d = time.Duration(seconds * float64(time.Second))
		}
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxAsked)
}

// Sleep waits d or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
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
