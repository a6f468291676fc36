package openstack

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowded has n requests made at once of a service that takes so long for each and does parallel of
// them at a time. It returns how long all of them took, and the longest one.
func crowded(t *testing.T, n, parallel int, each time.Duration) (all, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		room := make(chan struct{}, parallel)
		var mu sync.Mutex
		var wg sync.WaitGroup
		began := time.Now()
		for range n {
			wg.Go(func() {
				err := c.do(t.Context(), func() error {
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

func TestCrowdIsSmallWhenTheServiceDoesOneAfterTheOther(t *testing.T) {
	all, longest := crowded(t, 100, 1, 1600*time.Millisecond)
	if want := 160 * time.Second; all != want {
		t.Errorf("all took %s, want %s", all, want)
	}
	if longest > 10*time.Second {
		t.Errorf("one waited %s for its answer", longest)
	}
}

func TestCrowdGrowsWhenTheServiceDoesManyAtATime(t *testing.T) {
	all, longest := crowded(t, 100, 1000, 150*time.Millisecond)
	if all > 2*time.Second {
		t.Errorf("all took %s, want at most 2 s", all)
	}
	if longest > 150*time.Millisecond {
		t.Errorf("one took %s", longest)
	}
}

func TestCrowdIsLeftWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		var wg sync.WaitGroup
		defer wg.Wait()
		for range crowdLeast {
			wg.Go(func() { _ = c.do(t.Context(), func() error { time.Sleep(time.Minute); return nil }) })
		}
		synctest.Wait()
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := c.do(ctx, func() error { return nil }); !errors.Is(err, cause) {
			t.Errorf("error %v, want the context's cause", err)
		}
		if len(c.waiting) != 0 {
			t.Errorf("%d wait", len(c.waiting))
		}
	})
}
