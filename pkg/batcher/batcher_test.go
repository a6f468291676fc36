package batcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reads notes what each read was of, and takes so long for one.
type reads struct {
	mu  sync.Mutex
	all [][]string
	one time.Duration
}

func (r *reads) read(ctx context.Context, keys []string) map[string]int {
	slices.Sort(keys)
	r.mu.Lock()
	r.all = append(r.all, keys)
	n := len(r.all)
	r.mu.Unlock()
	select {
	case <-time.After(r.one):
	case <-ctx.Done():
		return nil
	}
	out := map[string]int{}
	for _, key := range keys {
		out[key] = n
	}
	return out
}

func (r *reads) want(t *testing.T, want ...[]string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.all, want, slices.Equal) {
		t.Errorf("reads %v, want %v", r.all, want)
	}
}

func TestReadsAreSharedWhileOneIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := New[string, int](Options{}), &reads{one: time.Second}
		var askers sync.WaitGroup
		ask := func(key string, read int) {
			askers.Go(func() {
				if got, err := b.Do(t.Context(), []string{key}, r.read); err != nil || got[key] != read {
					t.Errorf("%s: read %d (%v), want %d", key, got[key], err, read)
				}
			})
		}
		ask("a", 1)
		synctest.Wait()
		for _, key := range []string{"a", "b", "c", "b"} { // a again: what was read before it asks is not for it
			ask(key, 2)
		}
		askers.Wait()
		r.want(t, []string{"a"}, []string{"a", "b", "c"})
		if b.pending != nil || len(b.slots) != 0 {
			t.Errorf("left behind: %v, %d slots", b.pending, len(b.slots))
		}
	})
}

func TestReadWaitsForCompanyWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := New[string, int](Options{Window: 10 * time.Millisecond, Reads: 2}), &reads{one: time.Second}
		var askers sync.WaitGroup
		for _, key := range []string{"a", "b", "c"} {
			askers.Go(func() {
				if _, err := b.Do(t.Context(), []string{key}, r.read); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(6 * time.Millisecond)
		}
		askers.Wait()
		r.want(t, []string{"a", "b"}, []string{"c"})
	})
}

func TestReadEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := New[string, int](Options{}), &reads{one: time.Hour}
		cause := errors.New("cause")
		var askers sync.WaitGroup
		ask := func() context.CancelCauseFunc {
			ctx, leave := context.WithCancelCause(t.Context())
			askers.Go(func() {
				if _, err := b.Do(ctx, []string{"a"}, r.read); !errors.Is(err, cause) {
					t.Errorf("error %v, want the context's cause", err)
				}
			})
			synctest.Wait()
			return leave
		}
		reading, waiting := ask(), ask()
		waiting(cause) // before its read has begun
		synctest.Wait()
		reading(cause)
		askers.Wait()
		synctest.Wait()
		r.want(t, []string{"a"})
		if b.pending != nil || len(b.slots) != 0 {
			t.Errorf("left behind: %v, %d slots", b.pending, len(b.slots))
		}
		gone, leave := context.WithCancelCause(t.Context())
		leave(cause)
		if _, err := b.Do(gone, []string{"a"}, r.read); !errors.Is(err, cause) {
			t.Errorf("error %v of one who had gone before", err)
		}
		r.want(t, []string{"a"})
	})
}

func TestReadEndsAtItsDeadlineAndWhenItsOwnerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork()
		b, r := New[string, int](Options{Work: w, Deadline: time.Minute}), &reads{one: time.Hour}
		began := time.Now()
		if got, err := b.Do(t.Context(), []string{"a"}, r.read); err != nil || len(got) > 0 || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v, %v", time.Since(began), got, err)
		}
		w.Close()
		if _, err := b.Do(t.Context(), []string{"a"}, r.read); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}
