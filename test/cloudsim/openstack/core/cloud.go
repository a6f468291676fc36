package openstack

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
	url        string // scheme://host:port
	addresses  netip.Prefix
	stateDelay time.Duration
	zones      []string // the availability zones, which Nova and Cinder have in common
	start      time.Time
	ctx        context.Context // ends at Close; owned by the simulator, not by a call
	stop       context.CancelFunc
	wg         sync.WaitGroup
	held       chan struct{} // closed when transient states may end again
}

// hasAddress says whether the simulator may listen on an address or connect to it.
func (s *Cloud) hasAddress(a netip.Addr) bool { return a.IsLoopback() || s.addresses.Contains(a) }

// after runs fn with the lock held once d has passed, unless the simulator closes first.
// It may be called with or without the lock held.
func (s *Cloud) after(d time.Duration, fn func()) {
	s.spawn(func(ctx context.Context) {
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

// spawn runs fn in a goroutine that Close waits for; ctx ends at Close. The lock is not held.
func (s *Cloud) spawn(fn func(ctx context.Context)) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		fn(s.ctx)
	}()
}

// wait lets d pass; false when the client or the simulator went away first.
func (s *Cloud) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}
