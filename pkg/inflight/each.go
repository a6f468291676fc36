package inflight

import (
	"iter"

	"golang.org/x/sync/errgroup"
)

// Each calls f with all items, as of slices.All or maps.All, at most so many at a time, and returns
// when all calls have; most below 1 is no limit. What f finds out it keeps by itself.
func Each[K, V any](most int, items iter.Seq2[K, V], f func(K, V)) {
	var g errgroup.Group
	if most > 0 {
		g.SetLimit(most)
	}
	for k, v := range items {
		g.Go(func() error {
			f(k, v)
			return nil
		})
	}
	_ = g.Wait() // f has no error
}
