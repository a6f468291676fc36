package inflight

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachCallsAllSoManyAtATime(t *testing.T) {
	for _, tt := range []struct {
		most, items int
		want        int // at a time
		took        time.Duration
	}{{1, 3, 1, 3}, {2, 5, 2, 3}, {8, 3, 3, 1}, {0, 50, 50, 1}, {4, 0, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			in, peak, calls := 0, 0, make([]int, tt.items)
			began := time.Now()
			Each(tt.most, slices.All(calls), func(k, _ int) {
				mu.Lock()
				in++
				peak, calls[k] = max(peak, in), calls[k]+1
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				in--
				mu.Unlock()
			})
			took := time.Since(began)
			if peak != tt.want || took != tt.took*time.Second || slices.ContainsFunc(calls, func(n int) bool { return n != 1 }) {
				t.Errorf("%+v: %d at a time, %v, calls %v", tt, peak, took, calls)
			}
		})
	}
}
