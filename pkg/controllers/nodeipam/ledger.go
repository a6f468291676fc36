package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// ledger says which Node holds which CIDRs. It is not safe for concurrent use.
//
// A Node is offered CIDRs (reserve) and, seen with CIDRs of its own (observe), has those
// for as long as it lives (release).
type ledger struct {
	families [][]*pool
	held     map[types.UID]holding
	metrics  *Metrics
}

// holding is what one Node holds. Once assigned, it never changes.
type holding struct {
	cidrs    []netip.Prefix
	assigned bool // and not only offered
}

func newLedger(c Config, m *Metrics) *ledger {
	m.Start(c)
	return &ledger{families: c.pools(), held: map[types.UID]holding{}, metrics: m}
}

// fullError says that a family has no CIDR left.
type fullError struct{ pools []*pool }

// Error implements error.
func (e *fullError) Error() string {
	cidrs := make([]netip.Prefix, len(e.pools))
	for i, p := range e.pools {
		cidrs[i] = p.cidr
	}
	return fmt.Sprintf("no /%d is left in %v", e.pools[0].bits, cidrs)
}

// reserve returns what the Node holds, or takes a CIDR of each family for it: all or none.
func (l *ledger) reserve(uid types.UID) (holding, error) {
	if h, ok := l.held[uid]; ok {
		return h, nil
	}
	var h holding
	for _, pools := range l.families {
		cidr, ok := l.take(pools)
		if !ok {
			for _, taken := range h.cidrs {
				l.free(taken)
			}
			return holding{}, &fullError{pools}
		}
		h.cidrs = append(h.cidrs, cidr)
	}
	l.held[uid] = h
	return h, nil
}

func (l *ledger) take(pools []*pool) (netip.Prefix, bool) {
	for _, p := range pools {
		if cidr, tries, ok := p.take(); ok {
			l.metrics.took(p, 1)
			l.metrics.tried(p, tries)
			return cidr, true
		}
	}
	return netip.Prefix{}, false
}

// observe notes the CIDRs that a Node has, in place of what it was offered. It is true the
// first time; outside are those that no pool knows. freed says that something became free.
func (l *ledger) observe(uid types.UID, cidrs []netip.Prefix) (first bool, outside []netip.Prefix, freed bool) {
	before := l.held[uid]
	if before.assigned {
		return false, nil, false
	}
	for _, cidr := range cidrs {
		if !l.hold(cidr) {
			outside = append(outside, cidr)
		}
	}
	for _, cidr := range before.cidrs { // after, so that what is in both is never free
		freed = l.free(cidr) || freed
	}
	l.held[uid] = holding{cidrs: slices.Clone(cidrs), assigned: true}
	return true, outside, freed
}

// release frees what a Node held that is gone.
func (l *ledger) release(uid types.UID) (freed bool) {
	for _, cidr := range l.held[uid].cidrs {
		freed = l.free(cidr) || freed
	}
	delete(l.held, uid)
	return freed
}

// shared are those of the CIDRs, all held, that overlap what another Node or Services have.
func (l *ledger) shared(cidrs []netip.Prefix) (out []netip.Prefix) {
	for _, cidr := range cidrs {
		for _, p := range slices.Concat(l.families...) {
			if p.shared(cidr) {
				out = append(out, cidr)
			}
		}
	}
	return out
}

func (l *ledger) hold(cidr netip.Prefix) (inside bool) {
	for _, pools := range l.families {
		for _, p := range pools {
			if taken, ok := p.hold(cidr); ok {
				inside = true
				l.metrics.took(p, taken)
			}
		}
	}
	return inside
}

func (l *ledger) free(cidr netip.Prefix) (freed bool) {
	for _, pools := range l.families {
		for _, p := range pools {
			if n := p.free(cidr); n > 0 {
				freed = true
				l.metrics.freed(p, n)
			}
		}
	}
	return freed
}
