package server

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxWaiting is how many claims wait for one shares at most.
const maxWaiting = 128

// Why a request gets no share, or loses it.
var (
	errNoRoom  = errors.New("all is taken, and nobody holds more than this client")
	errGiveWay = errors.New("room was made for a client that holds less")
	errLate    = errors.New("the body did not arrive in time, and others wait for its room")
)

// shares divides an amount, be it of requests at a time or of memory, among clients. While
// there is enough, one client may have all of it. When there is not, who holds least comes
// first, and room is made for him: claims of the client that holds most are told to give way,
// the newest first, as long as that client holds more than the asking one will. So each client
// can have the amount divided by the number of clients, whatever the others do, and it takes no
// list of those who may. Claims that are late come last, and give way to all that are not. Those who
// hold little need not wait for others to leave, which may take CPU time: a reserve is for them.
type shares struct {
	mu sync.Mutex
	// free is held by nobody, leaving by claims that were told to give way.
	free, leaving int64
	// reserve is the part of free that only those take who hold no more than that, all in all.
	reserve int64
	holders map[string]*holder
	late    []*claim // of the holders' claims, the earliest first
	waiting int      // of all holders
	came    int64    // claims that had to wait so far
}

// holder is a client with claims that wait, or were not told to give way.
type holder struct {
	sum    int64 // of claims
	claims []*claim
	// waiting are the claims for which there is no room yet, in the order in which they came.
	waiting []*claim
}

// claim is the part of shares that a request wants or has.
type claim struct {
	client string
	n      int64
	// late says that the request's body should be there by now, arrived that it is.
	late, arrived bool
	giveWay       func(reason error)

	shares  *shares
	told    bool
	order   int64
	granted chan struct{} // nil for what did not have to wait
	refused error         // in place of being granted
}

// newShares divides total, and a reserve beside it.
func newShares(total, reserve int64) *shares {
	return &shares{free: total + reserve, reserve: reserve, holders: map[string]*holder{}}
}

// freeFor is what may be taken of what is free by a client who will hold sum.
func (s *shares) freeFor(sum int64) int64 {
	if sum > s.reserve {
		return s.free - s.reserve
	}
	return s.free
}

// take takes c.n for c.client, who gives it back by release. It waits for room until ctx ends;
// one without patience only where there will be some soon, and else fails with errNoRoom, as does
// the last of too many. giveWay is called, with the reason, when c is to end soon; it must not block.
func (s *shares) take(ctx context.Context, c *claim, patient bool) (*claim, error) {
	s.mu.Lock()
	c.shares = s
	if s.waiting == 0 && c.n <= s.freeFor(s.sum(c.client)+c.n) {
		s.hold(c)
		s.mu.Unlock()
		return c, nil
	}
	s.enqueue(c)
	s.grant()
	hope := s.makeRoom(c) || patient || s.roomSoon(c)
	if next := s.first(c); next != nil { // c may come before it, and take what was made for it
		s.makeRoom(next)
	}
	if !hope {
		s.dequeue(c)
		s.mu.Unlock()
		return nil, errNoRoom
	}
	s.mu.Unlock()
	select {
	case <-c.granted:
		if c.refused != nil {
			return nil, c.refused
		}
		return c, nil
	case <-ctx.Done():
		return nil, c.abandon(context.Cause(ctx))
	}
}

// abandon gives up a claim, granted meanwhile or not, and returns the reason.
func (c *claim) abandon(reason error) error {
	s := c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dequeue(c) && c.refused == nil {
		s.giveBack(c, c.n)
	}
	s.grant()
	return reason
}

// release gives back all that c has; it may be called again.
func (c *claim) release() { c.shrink(0) }

// shrink gives back all but n.
func (c *claim) shrink(n int64) {
	s := c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < c.n {
		s.giveBack(c, c.n-n)
		s.grant()
	}
}

// arrive says that the body is there, so that c gives way only to who holds less.
func (c *claim) arrive() {
	s := c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	c.arrived, c.late = true, false
	s.late = without(s.late, c)
}

// expire says that the body should be there by now: c gives way, as soon as others wait.
func (c *claim) expire() {
	s := c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.arrived || c.late || c.told || c.n == 0 {
		return
	}
	c.late = true
	s.late = append(s.late, c)
	need := s.reserve - s.free - s.leaving
	for w := range s.queue {
		if !w.late {
			need += w.n
		}
	}
	if need > 0 {
		s.tell(c, errLate)
	}
}

func (s *shares) enqueue(c *claim) {
	c.granted, c.order = make(chan struct{}), s.came
	s.came++
	h := s.holder(c.client)
	h.waiting = append(h.waiting, c)
	if s.waiting++; s.waiting <= maxWaiting {
		return
	}
	last, at := c, place{}
	for w, place := range s.queue {
		if at.before(place) {
			last, at = w, place
		}
	}
	last.refused = errNoRoom
	s.dequeue(last)
	close(last.granted)
}

// dequeue reports whether c has waited.
func (s *shares) dequeue(c *claim) bool {
	h := s.holders[c.client]
	if h == nil || !slices.Contains(h.waiting, c) {
		return false
	}
	s.waiting--
	h.waiting = without(h.waiting, c)
	s.forget(c.client)
	return true
}

func (s *shares) holder(client string) *holder {
	h := s.holders[client]
	if h == nil {
		h = &holder{}
		s.holders[client] = h
	}
	return h
}

// sum is what a client holds.
func (s *shares) sum(client string) int64 {
	if h := s.holders[client]; h != nil {
		return h.sum
	}
	return 0
}

// forget forgets a client of which there is nothing.
func (s *shares) forget(client string) {
	if h := s.holders[client]; len(h.claims) == 0 && len(h.waiting) == 0 {
		delete(s.holders, client)
	}
}

// hold gives c what is free.
func (s *shares) hold(c *claim) {
	s.free -= c.n
	h := s.holder(c.client)
	h.sum += c.n
	h.claims = append(h.claims, c)
	if c.late {
		s.late = append(s.late, c)
	}
}

func (s *shares) giveBack(c *claim, n int64) {
	s.free += n
	c.n -= n
	if c.told {
		s.leaving -= n
		return
	}
	s.holders[c.client].sum -= n
	if c.n == 0 {
		s.letGo(c)
	}
}

// letGo takes c, whose amount its holder's sum has no more, from those held.
func (s *shares) letGo(c *claim) {
	h := s.holders[c.client]
	h.claims, s.late = without(h.claims, c), without(s.late, c)
	s.forget(c.client)
}

// tell tells c to give way.
func (s *shares) tell(c *claim, why error) {
	c.told = true
	s.leaving += c.n
	s.holders[c.client].sum -= c.n
	s.letGo(c)
	c.giveWay(why)
}
