package keylock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
)

func TestLockHasOneHolderAtATimeForEachKey(t *testing.T) {
	var locks Locks[int]
	counts := [3]int{} // unguarded: the race detector looks on
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			key := i % len(counts)
			unlock, _, err := locks.Lock(context.Background(), key)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			counts[key]++
		})
	}
	wg.Wait()
	if counts != [3]int{100, 100, 100} {
		t.Errorf("counts %v, want 100 each", counts)
	}
	if n := locks.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestLockTellsWhetherItWaited(t *testing.T) {
	var locks Locks[string]
	unlock, waited, err := locks.Lock(t.Context(), "a")
	if waited || err != nil {
		t.Fatalf("a free key: waited %t, %v", waited, err)
	}
	other, waited, err := locks.Lock(t.Context(), "b")
	if waited || err != nil {
		t.Fatalf("another key: waited %t, %v", waited, err)
	}
	other()
	second := make(chan bool)
	go func() {
		unlock, waited, err := locks.Lock(context.Background(), "a")
		if err == nil {
			unlock()
		}
		second <- waited
	}()
	for locks.uses("a") < 2 { // until the second one waits
		runtime.Gosched()
	}
	unlock()
	if !<-second {
		t.Error("the second holder is not told that there was one before it")
	}
}

func (l *Locks[K]) uses(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[key].uses
}

func TestLockEndsWithTheContextWhenTheKeyIsHeld(t *testing.T) {
	var locks Locks[string]
	unlock, _, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, _, err := locks.Lock(ctx, "a"); !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's cause", err)
	}
	unlock()
	unlock() // once more does nothing
	again, _, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	unlock() // nor does it take the key from its next holder
	if n := locks.Len(); n != 1 {
		t.Errorf("%d keys are held, want the second holder's", n)
	}
	again()
	if n := locks.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestLocksAreEmptyWhenManyKeysWereUsed(t *testing.T) {
	var locks Locks[int]
	for i := range 10_000 {
		unlock, _, err := locks.Lock(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
	if n := locks.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
