package server

import (
	"cmp"
	"slices"
)

// place is a claim's among those that wait: by rank, what its client holds with it and its earlier ones.
type place struct {
	late        bool
	rank, order int64
}

func (p place) before(q place) bool {
	if p.late != q.late {
		return q.late
	}
	return cmp.Or(cmp.Compare(p.rank, q.rank), cmp.Compare(p.order, q.order)) < 0
}

// queue yields who waits, with their places.
func (s *shares) queue(yield func(*claim, place) bool) {
	if s.waiting == 0 {
		return
	}
	for _, h := range s.holders {
		rank := h.sum
		for _, c := range h.waiting {
			if rank += c.n; !yield(c, place{c.late, rank, c.order}) {
				return
			}
		}
	}
}

// first is the first of those who wait beside c; nil for nobody.
func (s *shares) first(c *claim) (first *claim) {
	var at place
	for w, place := range s.queue {
		if w != c && (first == nil || place.before(at)) {
			first, at = w, place
		}
	}
	return first
}

// grant gives what is free to those who wait, by place, as far as it goes.
func (s *shares) grant() {
	for {
		c := s.first(nil)
		if c == nil || c.n > s.freeFor(s.sum(c.client)+c.n) {
			return
		}
		s.dequeue(c)
		s.hold(c)
		close(c.granted)
	}
}

// makeRoom tells claims to give way until what will be free is enough for c and for those that
// come before it, and reports whether it is; of what is granted, too.
func (s *shares) makeRoom(c *claim) bool {
	at, waits := s.placeOf(c)
	if !waits {
		return c.refused == nil
	}
	need := -s.freeFor(at.rank) - s.leaving
	for w, place := range s.queue {
		if w == c || place.before(at) {
			need += w.n
		}
	}
	for need > 0 && !c.late {
		if len(s.late) > 0 {
			need -= s.late[0].n
			s.tell(s.late[0], errLate)
			continue
		}
		most := s.greediest(c.client)
		if most == nil || most.sum <= at.rank {
			break
		}
		last := most.claims[len(most.claims)-1]
		need -= last.n
		s.tell(last, errGiveWay)
	}
	return need <= 0
}

func (s *shares) placeOf(c *claim) (place, bool) {
	for w, place := range s.queue {
		if w == c {
			return place, true
		}
	}
	return place{}, false
}

// greediest is who holds most of all but client.
func (s *shares) greediest(client string) (most *holder) {
	for other, h := range s.holders {
		if other != client && (most == nil || h.sum > most.sum) {
			most = h
		}
	}
	return most
}

// roomSoon reports whether somebody else holds as much as c's client will, or has yet to send a
// body, which makes his claim late soon.
func (s *shares) roomSoon(c *claim) bool {
	at, waits := s.placeOf(c)
	for client, h := range s.holders {
		if waits && client != c.client && (h.sum >= at.rank ||
			slices.ContainsFunc(h.claims, func(held *claim) bool { return !held.arrived })) {
			return true
		}
	}
	return false
}

func without(all []*claim, c *claim) []*claim {
	if i := slices.Index(all, c); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}
