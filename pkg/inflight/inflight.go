// Package inflight bounds how many requests of a kind are under way at a time: Limit by what the service
// shows that it can do at a time, Each by a number.
//
// It does not know how often a service may be asked, which the service says itself (cloud.Traffic), and
// does not repeat anything.
package inflight

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// least and most bound how many requests of a kind are under way at a time.
	least, most = 1, 100
	// floor is what a request may always take: below that differences mean nothing.
	floor = 200 * time.Millisecond
	// memory is for how long what was learned of the service holds.
	memory = time.Minute
	// headStart is how many times as long as it took the first request's work goes on by itself, and
	// headStartMost how long at most.
	headStart, headStartMost = 4, 5 * time.Second
)

// Limit bounds how many requests of a kind are under way at a time, by what a service can do at a
// time: as long as they take hardly longer than alone, more are let in, and fewer once they take far
// longer. A service that does one after the other would only have the last of a hundred wait until
// its client has gone, and not know any more what became of it. Who comes first goes first.
//
// The zero value is ready for use.
type Limit struct {
	// HeadStart says that the service works on when it has answered. Where it is slow, what the first
	// request after a pause asked for then has it for itself for some time, in proportion to what the
	// request took: else the first of a hundred would be done hardly before the last.
	HeadStart bool

	mu      sync.Mutex
	limit   float64 // 0 is least
	in      int
	alone   time.Duration // about what a request takes that has the service for itself; 0 is unknown
	left    time.Time     // when the last one ended
	waiting []chan struct{}
}

// Do calls f when there is room for it.
func (l *Limit) Do(ctx context.Context, f func() error) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	began := time.Now()
	err := f()
	l.leave(time.Since(began))
	return err
}

func (l *Limit) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.limit == 0 || l.in == 0 && time.Since(l.left) > memory {
		l.limit, l.alone = least, 0
	}
	if l.in < int(l.limit) && len(l.waiting) == 0 {
		l.in++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return fmt.Errorf("wait for requests before this one: %w", context.Cause(ctx))
		}
	}
	l.in-- // its turn had come
	l.admit()
	return fmt.Errorf("wait for requests before this one: %w", context.Cause(ctx))
}

// leave ends a request that has taken so long.
func (l *Limit) leave(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in--
	first := l.alone == 0
	if first || took < l.alone {
		l.alone = took
	}
	l.left = time.Now()
	if first && l.HeadStart && took > floor {
		l.in++
		time.AfterFunc(min(took*headStart, headStartMost), l.headStartEnds)
		return
	}
	switch alone := max(l.alone, floor); {
	case took < alone*3/2:
		l.limit = min(l.limit+1, most)
	case took > alone*3:
		l.limit = max(l.limit*3/4, least)
	}
	l.admit()
}

// headStartEnds lets others in.
func (l *Limit) headStartEnds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in--
	l.limit++
	l.admit()
}

// admit lets those in for whom there is room.
func (l *Limit) admit() {
	for len(l.waiting) > 0 && l.in < int(l.limit) {
		l.in++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}
