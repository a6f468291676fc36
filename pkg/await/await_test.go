package await

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// site is a cloud of objects with work on them, in the time of a bubble of synctest.
type site struct {
	mu    sync.Mutex
	ready map[string]time.Time // when the work ends
	looks []time.Time
	err   error
	// during is called in the middle of a look; may be nil.
	during func()
}

func (s *site) poll(_ context.Context, ids []string) (map[string]string, error) {
	s.mu.Lock()
	s.looks = append(s.looks, time.Now())
	out := map[string]string{}
	for _, id := range ids {
		if at, ok := s.ready[id]; ok && !time.Now().Before(at) {
			out[id] = id + " is ready"
		}
	}
	err, during := s.err, s.during
	s.mu.Unlock()
	if during != nil {
		during()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *site) take(d time.Duration, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == nil {
		s.ready = map[string]time.Time{}
	}
	for _, id := range ids {
		s.ready[id] = time.Now().Add(d)
	}
}

func (s *site) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.looks)
}

func ref(name string) cloud.LoadBalancerRef {
	return cloud.LoadBalancerRef{Namespace: "default", Name: name, UID: "uid-" + name}
}

func isRetry(err error) bool { return cloud.KindOf(err) == cloud.KindRetryAfter }

func TestOneLookASecondWhenHundredsArePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		told := map[string]int{}
		w.Attach(ctx, func(r cloud.LoadBalancerRef) {
			mu.Lock()
			defer mu.Unlock()
			told[r.Name]++
		})
		began := time.Now()
		for i := range 100 {
			id := fmt.Sprint("lb", i)
			s.take(40*time.Second+time.Duration(i)*100*time.Millisecond, id)
			if _, err := w.Wait(ctx, ref(id), id, 0); !isRetry(err) {
				t.Fatalf("error %v, want a retry", err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("100 waits that are not granted any time take %s", took)
		}
		time.Sleep(65 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(told) != 100 || slices.ContainsFunc(slices.Collect(maps.Values(told)), func(n int) bool { return n != 1 }) {
			t.Errorf("told %v, want each of 100 once", told)
		}
		mu.Unlock()
		looks := s.times()
		if first := looks[0].Sub(began); first != 250*time.Millisecond {
			t.Errorf("the first look is after %s", first)
		}
		for i := 1; i < len(looks); i++ {
			if gap := looks[i].Sub(looks[i-1]); gap < time.Second || gap > 10*time.Second {
				t.Errorf("look %d is %s after the one before", i, gap)
			}
		}
		if len(looks) > 25 {
			t.Errorf("%d looks", len(looks))
		}
		time.Sleep(time.Minute)
		if _, err := w.Wait(ctx, ref("other"), "other", 0); !isRetry(err) || w.Len() != 1 {
			t.Errorf("%d waits are remembered, want the last one only (%v)", w.Len(), err)
		}
	})
}

// A cloud that takes long to answer is busy.
func TestLooksTakeATwentiethOfTheTimeWhenTheyAreSlow(t *testing.T) {
	for _, tt := range []struct {
		objects   int
		took, gap time.Duration
	}{
		{3, 20 * time.Millisecond, time.Second},
		{3, 100 * time.Millisecond, 2 * time.Second},
		{3, time.Second, 10 * time.Second},
		{3, 30 * time.Second, 30 * time.Second},
		{1, 20 * time.Millisecond, 250 * time.Millisecond}, // one alone: a fifth
		{1, 100 * time.Millisecond, 500 * time.Millisecond},
		{1, time.Second, time.Second},
	} {
		took, gap := tt.took, tt.gap
		synctest.Test(t, func(t *testing.T) {
			s := &site{during: func() { time.Sleep(took) }}
			w := New(s.poll, Pace{})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for i := range tt.objects {
				wg.Go(func() {
					if _, err := w.Wait(ctx, ref(fmt.Sprint(i)), fmt.Sprint("lb-", i), time.Hour); err == nil {
						t.Error("the work has ended")
					}
				})
			}
			wg.Wait()
			time.Sleep(took) // the last look ends
			synctest.Wait()
			looks := s.times()
			if len(looks) < 8 {
				t.Fatalf("%s: %d looks", took, len(looks))
			}
			for i := 2; i < 8; i++ {
				if d := looks[i].Sub(looks[i-1]); d != gap {
					t.Errorf("%d objects, each look takes %s: the next one began %s later, want %s", tt.objects, took, d, gap)
				}
			}
		})
	}
}

func TestWaitTellsWhatWasSeenWhenTheWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		s.take(time.Second, "lb")
		began := time.Now()
		got, err := w.Wait(t.Context(), ref("a"), "lb", time.Minute)
		if got != "lb is ready" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("that took %s", took)
		}
		synctest.Wait() // the goroutine that looks has ended, or the bubble would not
		if w.Len() != 0 {
			t.Errorf("%d waits are remembered", w.Len())
		}
	})
}

func TestEndIsKeptUntilTheServiceComesBackForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan string, 10)
		w.Attach(ctx, func(r cloud.LoadBalancerRef) { told <- r.Name })
		s.take(3*time.Second, "lb")
		for _, name := range []string{"a", "b"} { // they share the load balancer
			if _, err := w.Wait(ctx, ref(name), "lb", 0); !isRetry(err) {
				t.Fatal(err)
			}
		}
		got := []string{<-told, <-told}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("told %v", got)
		}
		looks := len(s.times())
		if got, err := w.Wait(ctx, ref("a"), "lb", 0); got != "lb is ready" || err != nil {
			t.Errorf("a: %q, %v", got, err)
		}
		w.Forget(ref("b"), "lb") // which changes it
		s.take(5*time.Second, "lb")
		if got, err := w.Wait(ctx, ref("b"), "lb", 0); !isRetry(err) {
			t.Errorf("b is told of the work before its own: %q, %v", got, err)
		}
		if len(s.times()) != looks {
			t.Errorf("that was looked up")
		}
		if <-told != "b" {
			t.Error("b is not told of its own")
		}
		time.Sleep(2 * fresh)
		s.take(time.Hour, "lb")
		if got, err := w.Wait(ctx, ref("b"), "lb", 0); !isRetry(err) {
			t.Errorf("an old end is told: %q, %v", got, err)
		}
	})
}

// Somebody else's work may begin while a look is under way, which then proves nothing for it.
func TestLookProvesNothingWhenItBeganBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		s.take(0, "lb")
		late := make(chan error, 1)
		s.during = func() {
			s.mu.Lock()
			s.during = nil
			s.mu.Unlock()
			s.take(time.Hour, "lb")
			go func() {
				_, err := w.Wait(t.Context(), ref("b"), "lb", 5*time.Second)
				late <- err
			}()
			time.Sleep(100 * time.Millisecond)
		}
		if got, err := w.Wait(t.Context(), ref("a"), "lb", time.Minute); got == "" || err != nil {
			t.Errorf("a: %q, %v", got, err)
		}
		if err := <-late; !isRetry(err) {
			t.Errorf("b: %v, want a retry", err)
		}
	})
}

func TestFailedLookEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{err: cloud.Errorf(cloud.KindDenied, "no")}
		w := New(s.poll, Pace{})
		s.take(0, "lb")
		_, err := w.Wait(t.Context(), ref("a"), "lb", 4*time.Second)
		if !isRetry(err) || !strings.HasSuffix(err.Error(), ": no") {
			t.Errorf("error %v, want a retry that says why", err)
		}
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		term, end := context.WithCancel(t.Context())
		w.Attach(term, func(cloud.LoadBalancerRef) { t.Error("told after the term") })
		if _, err := w.Wait(term, ref("a"), "lb", time.Minute/2); !isRetry(err) {
			t.Error(err)
		}
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if _, err := w.Wait(ctx, ref("b"), "lb", time.Hour); !errors.Is(err, cause) {
			t.Errorf("error %v, want the context's cause", err)
		}
		s.take(0, "lb")
		end()
		synctest.Wait()
		if w.Len() != 0 {
			t.Errorf("%d waits are left after the term", w.Len())
		}
		// And without a term, as in a process that does not lead.
		if got, err := w.Wait(t.Context(), ref("a"), "lb", time.Minute); got == "" || err != nil {
			t.Errorf("after the term: %q, %v", got, err)
		}
	})
}

func TestWorkThatNobodyAsksAboutIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.Attach(ctx, func(cloud.LoadBalancerRef) {})
		if _, err := w.Wait(ctx, ref("a"), "never", 0); !isRetry(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := len(s.times()); w.Len() != 0 || n > 125 {
			t.Errorf("%d waits are left, %d looks", w.Len(), n)
		}
	})
}

func TestTermBeginsWhileSomethingIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		w := New(s.poll, Pace{})
		s.take(20*time.Second, "lb")
		waited := make(chan error, 1)
		go func() {
			_, err := w.Wait(t.Context(), ref("a"), "lb", 2*time.Second)
			waited <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan string, 1)
		w.Attach(ctx, func(r cloud.LoadBalancerRef) { told <- r.Name })
		if err := <-waited; !isRetry(err) {
			t.Error(err)
		}
		if got := <-told; got != "a" {
			t.Errorf("told %q", got)
		}
	})
}
