package inflight

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// requested has n requests made at once of a service that takes so long for each and does parallel of
// them at a time. It returns how long all of them took, and the longest one.
func requested(t *testing.T, n, parallel int, each time.Duration) (all, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var c Limit
		room := make(chan struct{}, parallel)
		var mu sync.Mutex
		var wg sync.WaitGroup
		began := time.Now()
		for range n {
			wg.Go(func() {
				err := c.Do(t.Context(), func() error {
					sent := time.Now()
					room <- struct{}{}
					time.Sleep(each)
					<-room
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, time.Since(sent))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		all = time.Since(began)
		if c.in != 0 || len(c.waiting) != 0 {
			t.Errorf("%d are in, %d wait", c.in, len(c.waiting))
		}
	})
	return all, longest
}

func TestLimitIsSmallWhenTheServiceDoesOneAfterTheOther(t *testing.T) {
	all, longest := requested(t, 100, 1, 1600*time.Millisecond)
	if want := 160 * time.Second; all != want {
		t.Errorf("all took %s, want %s", all, want)
	}
	if longest > 10*time.Second {
		t.Errorf("one waited %s for its answer", longest)
	}
}

func TestLimitGrowsWhenTheServiceDoesManyAtATime(t *testing.T) {
	all, longest := requested(t, 100, 1000, 150*time.Millisecond)
	if all > 2*time.Second {
		t.Errorf("all took %s, want at most 2 s", all)
	}
	if longest > 150*time.Millisecond {
		t.Errorf("one took %s", longest)
	}
}

func TestLimitIsLeftWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Limit
		var wg sync.WaitGroup
		defer wg.Wait()
		for range least {
			wg.Go(func() { _ = c.Do(t.Context(), func() error { time.Sleep(time.Minute); return nil }) })
		}
		synctest.Wait()
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := c.Do(ctx, func() error { return nil }); !errors.Is(err, cause) {
			t.Errorf("error %v, want the context's cause", err)
		}
		if len(c.waiting) != 0 {
			t.Errorf("%d wait", len(c.waiting))
		}
	})
}

// TestLimitGivesTheFirstAHeadStart: and nobody a second one before a pause.
func TestLimitGivesTheFirstAHeadStart(t *testing.T) {
	for _, test := range []struct {
		name       string
		took, want time.Duration
	}{
		{"of a slow service", time.Second, 5 * time.Second},
		{"but no long one of a very slow service", 10 * time.Second, 15 * time.Second},
		{"but none of a fast service", 150 * time.Millisecond, 150 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Limit{HeadStart: true}
				var mu sync.Mutex
				var wg sync.WaitGroup
				var began []time.Duration
				start := time.Now()
				for range 4 {
					wg.Go(func() {
						_ = c.Do(t.Context(), func() error {
							mu.Lock()
							began = append(began, time.Since(start))
							mu.Unlock()
							time.Sleep(test.took)
							return nil
						})
					})
				}
				wg.Wait()
				if want := []time.Duration{0, test.want, test.want, test.want + test.took}; !slices.Equal(began, want) {
					t.Errorf("requests began after %v, want %v", began, want)
				}
				time.Sleep(headStartMost)
				if c.in != 0 {
					t.Errorf("%d are in", c.in)
				}
			})
		})
	}
}
