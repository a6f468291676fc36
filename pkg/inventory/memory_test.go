package inventory

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryForgetsWhatIsTooOld(t *testing.T) {
	var m Memory[string, int]
	now := time.Now()
	want := func(key string, value int, known bool) {
		t.Helper()
		if got, ok := m.Get(key, now); got != value || ok != known {
			t.Errorf("%s is %d, %t; want %d, %t", key, got, ok, value, known)
		}
	}
	want("a", 0, false)
	m.Forget("a")
	m.Put("a", 1, now, now.Add(time.Minute))
	m.Put("b", 2, now, now.Add(time.Hour))
	now = now.Add(time.Minute)
	want("a", 1, true) // just so
	now = now.Add(1)
	m.Put("c", 3, now, now.Add(time.Hour))
	if len(m.entries) != 2 {
		t.Errorf("%d are left, want b and c: nobody asks for a any more", len(m.entries))
	}
	want("a", 0, false)
	if got, ok := m.Take("b", now); got != 2 || !ok {
		t.Errorf("took %d, %t", got, ok)
	}
	want("b", 0, false)
	m.Forget("c")
	want("c", 0, false)
}

func TestMemoryIsReadOnceForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory[string, int]
		reads, failing := 0, errors.New("no")
		read := func() (int, error) {
			return m.Read("a", time.Now, time.Minute, func() (int, error) {
				time.Sleep(30 * time.Second)
				reads++
				return reads, failing
			})
		}
		if got, err := read(); !errors.Is(err, failing) || got != 0 {
			t.Errorf("got %d, %v", got, err)
		}
		failing = nil
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if got, err := read(); err != nil || got != 2 {
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		all.Wait()
		time.Sleep(30 * time.Second)
		if got, err := read(); err != nil || got != 2 { // a minute after the read began
			t.Errorf("got %d, %v", got, err)
		}
		time.Sleep(time.Nanosecond)
		if got, err := read(); err != nil || got != 3 {
			t.Errorf("got %d, %v", got, err)
		}
	})
}
