package server

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Why a request gets no share, or loses it.
var (
	errNoRoom  = errors.New("all is taken, and nobody holds more than this client")
	errGiveWay = errors.New("room was made for a client that holds less")
)

// shares divides an amount, be it of requests at a time or of memory, among clients. While
// there is enough, one client may have all of it. When there is not, who holds least comes
// first, and room is made for him: claims of the client that holds most are told to give way,
// the newest first, as long as that client holds more than the asking one will. So each client
// can have the amount divided by the number of clients, whatever the others do, and it takes no
// list of those who may.
type shares struct {
	mu sync.Mutex
	// free is held by nobody, leaving by claims that were told to give way.
	free, leaving int64
	holders       map[string]*holder
	// waiting are the claims for which there is no room yet, in the order in which they came.
	waiting []*claim
}

// holder is a client with claims that were not told to give way.
type holder struct {
	sum    int64
	claims []*claim
}

// claim is the part of shares that a request wants or has.
type claim struct {
	shares  *shares
	client  string
	n       int64
	giveWay func(reason error)
	told    bool
	granted chan struct{}
}

func newShares(total int64) *shares {
	return &shares{free: total, holders: map[string]*holder{}}
}

// take takes n for a client, who gives it back by release. It waits for room until ctx ends;
// one without patience only where others give way, and else fails with errNoRoom. giveWay is
// called, with errGiveWay, when this claim is to end soon; it must not block.
func (s *shares) take(ctx context.Context, client string, n int64, patient bool, giveWay func(error)) (*claim, error) {
	c := &claim{shares: s, client: client, n: n, giveWay: giveWay}
	s.mu.Lock()
	if len(s.waiting) == 0 && n <= s.free {
		s.hold(c)
		s.mu.Unlock()
		return c, nil
	}
	c.granted = make(chan struct{})
	s.waiting = append(s.waiting, c)
	s.grant()
	room := s.makeRoom(c)
	if next := s.next(c); next != nil { // c may come before it, and take what was made for it
		s.makeRoom(next)
	}
	s.mu.Unlock()
	if !room && !patient {
		return nil, c.abandon(errNoRoom)
	}
	select {
	case <-c.granted:
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
	if i := slices.Index(s.waiting, c); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
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

func (s *shares) giveBack(c *claim, n int64) {
	s.free += n
	c.n -= n
	if c.told {
		s.leaving -= n
		return
	}
	h := s.holders[c.client]
	h.sum -= n
	if c.n == 0 {
		s.forget(h, c)
	}
}

// forget takes c, whose amount h's sum has no more, from h.
func (s *shares) forget(h *holder, c *claim) {
	if i := slices.Index(h.claims, c); i >= 0 {
		h.claims = slices.Delete(h.claims, i, i+1)
	}
	if len(h.claims) == 0 {
		delete(s.holders, c.client)
	}
}

// sum is what a client holds.
func (s *shares) sum(client string) int64 {
	if h := s.holders[client]; h != nil {
		return h.sum
	}
	return 0
}

// ranks are, for each that waits, what its client would hold with it and its earlier ones.
func (s *shares) ranks() []int64 {
	sums, out := map[string]int64{}, make([]int64, len(s.waiting))
	for i, c := range s.waiting {
		if _, ok := sums[c.client]; !ok {
			sums[c.client] = s.sum(c.client)
		}
		sums[c.client] += c.n
		out[i] = sums[c.client]
	}
	return out
}

// next is the first, by rank, of those who wait beside c; nil for nobody.
func (s *shares) next(c *claim) (first *claim) {
	least := int64(0)
	for i, rank := range s.ranks() {
		if w := s.waiting[i]; w != c && (first == nil || rank < least) {
			first, least = w, rank
		}
	}
	return first
}

// grant gives what is free to those who wait, by rank, as far as it goes.
func (s *shares) grant() {
	for len(s.waiting) > 0 {
		ranks := s.ranks()
		i := slices.Index(ranks, slices.Min(ranks))
		c := s.waiting[i]
		if c.n > s.free {
			return
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.hold(c)
		close(c.granted)
	}
}

// hold gives c what is free.
func (s *shares) hold(c *claim) {
	s.free -= c.n
	h := s.holders[c.client]
	if h == nil {
		h = &holder{}
		s.holders[c.client] = h
	}
	h.sum += c.n
	h.claims = append(h.claims, c)
}

// makeRoom tells claims to give way until what will be free is enough for c and for those that
// come before it, and reports whether it is; of what is granted, too.
func (s *shares) makeRoom(c *claim) bool {
	at := slices.Index(s.waiting, c)
	if at < 0 {
		return true
	}
	need, ranks := -s.free-s.leaving, s.ranks()
	for i, w := range s.waiting {
		if i == at || ranks[i] < ranks[at] || ranks[i] == ranks[at] && i < at {
			need += w.n
		}
	}
	for need > 0 {
		var most *holder
		for client, h := range s.holders {
			if client != c.client && h.sum > ranks[at] && (most == nil || h.sum > most.sum) {
				most = h
			}
		}
		if most == nil {
			return false
		}
		last := most.claims[len(most.claims)-1]
		last.told = true
		most.sum -= last.n
		s.forget(most, last)
		s.leaving += last.n
		need -= last.n
		last.giveWay(errGiveWay)
	}
	return true
}
