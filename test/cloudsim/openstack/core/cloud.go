package core

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Cloud is what all services share: the lock of their state, their addresses, and changes that come later.
type Cloud struct {
	sync.Mutex // guards the state of all services, and zones

	addressPlan
	URL        string // scheme://host:port
	addresses  netip.Prefix
	StateDelay time.Duration
	Zones      []string // the availability zones, which Nova and Cinder have in common
	Started    time.Time
	Context    context.Context // ends at Close; owned by the simulator, not by a call
	stop       context.CancelFunc
	wg         sync.WaitGroup
	held       chan struct{} // closed when transient states may end again
}

// HasAddress says whether the simulator may listen on an address or connect to it.
func (s *Cloud) HasAddress(a netip.Addr) bool { return a.IsLoopback() || s.addresses.Contains(a) }

// After runs fn with the lock held once d has passed, unless the simulator closes first.
// It may be called with or without the lock held.
func (s *Cloud) After(d time.Duration, fn func()) {
	s.Spawn(func(ctx context.Context) {
		t := time.NewTimer(max(d, 0))
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for {
			s.Lock()
			held := s.held
			if held == nil {
				fn()
				s.Unlock()
				return
			}
			s.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-held:
			}
		}
	})
}

// HoldStates keeps transient states (BUILD, PENDING_UPDATE, …) as they are, however long they
// are to last, until the returned function is called. Nobody else may hold them meanwhile.
func (s *API) HoldStates() (release func()) {
	c, held := s.cloud, make(chan struct{})
	c.Lock()
	c.held = held
	c.Unlock()
	return sync.OnceFunc(func() {
		c.Lock()
		c.held = nil
		c.Unlock()
		close(held)
	})
}

// Spawn runs fn in a goroutine that Close waits for; ctx ends at Close. The lock is not held.
func (s *Cloud) Spawn(fn func(ctx context.Context)) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		fn(s.Context)
	}()
}

// Wait lets d pass; false when the client or the simulator went away first.
func (s *Cloud) Wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.Context.Done():
	}
	return false
}
