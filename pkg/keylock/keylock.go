// Package keylock has locks by key: one holder at a time for each key, whoever waits honors
// its context, and a key that nobody holds or waits for takes no memory.
//
// It does not order those who wait, and it is no read-write lock.
package keylock

import (
	"context"
	"sync"
)

// Locks are the locks of all keys. The zero value is ready; it must not be copied after its
// first use.
type Locks[K comparable] struct {
	mu   sync.Mutex
	keys map[K]*lock
}

type lock struct {
	held chan struct{} // holds one element while somebody has the key
	uses int           // holders and waiters; guarded by Locks.mu
}

// Lock waits for the key. waited says that somebody else had it meanwhile, so that what the
// key guards may have changed. unlock gives the key back; further calls of it do nothing. When
// ctx ends first, its cause is the error and unlock is nil. A key that is free is had even if
// ctx has ended.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), waited bool, err error) {
	k := l.enter(key)
	unlock = sync.OnceFunc(func() {
		<-k.held
		l.leave(key, k)
	})
	select {
	case k.held <- struct{}{}:
		return unlock, false, nil
	default:
	}
	select {
	case k.held <- struct{}{}:
		return unlock, true, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, true, context.Cause(ctx)
	}
}

// Len is how many keys are held or waited for.
func (l *Locks[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// enter counts one more holder or waiter of the key.
func (l *Locks[K]) enter(key K) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		if l.keys == nil {
			l.keys = map[K]*lock{}
		}
		k = &lock{held: make(chan struct{}, 1)}
		l.keys[key] = k
	}
	k.uses++
	return k
}

func (l *Locks[K]) leave(key K, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.uses--; k.uses == 0 {
		delete(l.keys, key)
	}
}
