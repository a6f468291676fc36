package decorate

import (
	"context"
	"sync"
)

// turns lets one holder at a time have each key. Waiting honors the waiter's context. The
// zero value is ready; keys that nobody holds or waits for take no memory.
type turns[K comparable] struct {
	mu   sync.Mutex
	keys map[K]*turn
}

type turn struct {
	free chan struct{} // holds one token while nobody has the key
	uses int           // holders and waiters; guarded by turns.mu
}

// take waits for key's turn; the caller calls done to end it.
func (t *turns[K]) take(ctx context.Context, key K) (done func(), err error) {
	t.mu.Lock()
	if t.keys == nil {
		t.keys = map[K]*turn{}
	}
	k := t.keys[key]
	if k == nil {
		k = &turn{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		t.keys[key] = k
	}
	k.uses++
	t.mu.Unlock()
	select {
	case <-k.free:
		return func() {
			k.free <- struct{}{}
			t.leave(key, k)
		}, nil
	case <-ctx.Done():
		t.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

func (t *turns[K]) leave(key K, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.uses--; k.uses == 0 {
		delete(t.keys, key)
	}
}
