package inventory

import (
	"context"
	"errors"
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
		failing = nil
		want(5, nil) // a failure is not kept
		if reads != 5 {
			t.Errorf("%d reads, want 5", reads)
		}
	})
}
