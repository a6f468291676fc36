package inventory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestValueIsReadWhenItIsTooOldOrForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[int]
		reads, failing := 0, error(nil)
		want := func(want int, wantErr error) {
			t.Helper()
			got, err := v.Get(t.Context(), time.Minute, func(context.Context) (int, error) {
				reads++
				return reads, failing
			})
			if !errors.Is(err, wantErr) || err == nil && got != want {
				t.Errorf("got %d, %v, want %d, %v", got, err, want, wantErr)
			}
		}
		want(1, nil)
		time.Sleep(time.Minute - 1)
		want(1, nil)
		time.Sleep(time.Nanosecond)
		want(2, nil)
		v.Forget()
		want(3, nil)
		failing = errors.New("down")
		want(3, nil) // it is fresh
		v.Forget()
		want(0, failing)
		want(0, failing) // as for all who ask just now
		failing = nil
		time.Sleep(failureAge)
		want(5, nil) // a failure is not kept for longer
		if reads != 5 {
			t.Errorf("%d reads, want 5", reads)
		}
	})
}

// Each read that succeeds is told, by when it began.
func TestValueTellsWhenItWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Time
		v := Value[int]{Read: func(at time.Time) { told = append(told, at) }}
		begin, failing := time.Now(), error(nil)
		get := func() {
			_, _ = v.Get(t.Context(), time.Minute, func(context.Context) (int, error) { // whether it fails is said above
				time.Sleep(10 * time.Second)
				return 1, failing
			})
		}
		get()
		get() // it is fresh
		time.Sleep(time.Hour)
		failing = errors.New("down")
		get()
		if len(told) != 1 || !told[0].Equal(begin) {
			t.Errorf("told %v, want once %v", told, begin)
		}
	})
}

func TestValueIsReadOnceForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[int]
		reads, failing := 0, error(nil)
		read := func(ctx context.Context) (int, error) {
			reads++
			time.Sleep(10 * time.Second)
			return reads, errors.Join(failing, ctx.Err())
		}
		all := func(want int, wantErr error) {
			t.Helper()
			var group sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			group.Go(func() { // asks first, and does not wait for the end
				if _, err := v.Get(ctx, time.Minute, read); !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			})
			synctest.Wait()
			for range 5 {
				group.Go(func() {
					if got, err := v.Get(t.Context(), time.Minute, read); got != want || !errors.Is(err, wantErr) {
						t.Errorf("got %d, %v, want %d, %v", got, err, want, wantErr)
					}
				})
			}
			synctest.Wait()
			cancel()
			group.Wait()
		}
		all(1, nil)
		failing = errors.New("down")
		v.Forget()
		all(0, failing)
		if reads != 2 {
			t.Errorf("%d reads, want 2", reads)
		}
	})
}

func TestValueThatIsNeededNewerIsReadAgain(t *testing.T) {
	for _, forget := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { neededNewer(t, forget) })
	}
}

func neededNewer(t *testing.T, forget bool) {
	var v Value[int]
	reads := 0
	read := func(context.Context) (int, error) {
		reads++
		n := reads
		time.Sleep(10 * time.Second)
		return n, nil
	}
	var group sync.WaitGroup
	for n := range 3 { // the first begins a read, the others come too late for it
		group.Go(func() {
			if got, err := v.Since(t.Context(), time.Now(), read); err != nil || got != 2 && (forget || n > 0 || got != 1) {
				t.Errorf("%d: got %d, %v", n, got, err)
			}
		})
		synctest.Wait()
		time.Sleep(time.Second)
	}
	if forget { // while it is read for the first
		v.Forget()
	}
	group.Wait()
	if reads != 2 {
		t.Errorf("%d reads, want 2", reads)
	}
}

func TestValueIsEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Value[[]string]
		add := func(s string) { v.Edit(func(all []string) []string { return append(slices.Clone(all), s) }) }
		read := func(context.Context) ([]string, error) {
			time.Sleep(10 * time.Second)
			return []string{"read"}, nil
		}
		want := func(want ...string) {
			t.Helper()
			if got, err := v.Get(t.Context(), time.Minute, read); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		add("lost") // nobody knows yet what it is added to
		var group sync.WaitGroup
		group.Go(func() { want("read", "meanwhile") })
		synctest.Wait()
		add("meanwhile")
		group.Wait()
		add("later")
		want("read", "meanwhile", "later")
		if got := v.Known(); len(got) != 3 {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Minute)
		want("read")
	})
}
