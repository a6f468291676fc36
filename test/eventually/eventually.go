// Package eventually waits, in tests, for what other goroutines and processes do. How long
// that takes says nothing: a machine may be busy. So there is no limit to choose; the one
// limit only keeps a test from hanging.
package eventually

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	// limit is far beyond what any test waits for, also with many processes for each core.
	limit = 5 * time.Minute
	// reserve is left of the time that the test binary has, to say what is missing.
	reserve = 15 * time.Second
	// period is the time between two checks.
	period = 20 * time.Millisecond
)

// NoError waits until check returns nil. If it never does, t fails with the last error.
func NoError(t testing.TB, check func() error) {
	t.Helper()
	begin := time.Now()
	end := begin.Add(patience(t))
	for {
		err := check()
		if err == nil {
			return
		}
		if now := time.Now(); now.After(end) {
			t.Fatalf("not within %s: %v", now.Sub(begin).Round(time.Second), err)
		}
		time.Sleep(period)
	}
}

// patience is how long to wait at most.
func patience(t testing.TB) time.Duration {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, limited := d.Deadline(); limited {
			return min(limit, time.Until(deadline)-reserve)
		}
	}
	return limit
}

// Met waits until missing returns "". If it never does, t fails with its last answer.
func Met(t testing.TB, missing func() string) {
	t.Helper()
	NoError(t, func() error {
		if text := strings.TrimSpace(missing()); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// True waits until done returns true. If it never does, t fails and says what was awaited.
func True(t testing.TB, what string, done func() bool) {
	t.Helper()
	NoError(t, func() error {
		if !done() {
			return errors.New("it is still not so: " + what)
		}
		return nil
	})
}

// Received waits until c has a value, or is closed, and returns what it got. If that never
// happens, t fails and says what was awaited.
func Received[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	most := patience(t)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("not within %s: %s", most.Round(time.Second), what)
	}
	panic("unreachable: the test has failed")
}
