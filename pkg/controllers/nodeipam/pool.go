package nodeipam

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// pool is one cluster CIDR, cut into blocks of the size that a Node gets. It counts the
// holders of each block: a Node may hold a CIDR of another size, from a time when the size
// was configured otherwise, and that overlaps many blocks or shares one with others.
type pool struct {
	cidr  netip.Prefix
	bits  int // of a block
	count []uint32
	used  int // blocks with holders
	next  int // where the search for a free block begins
}

// newPool makes a pool; see Ranges for the sizes that are possible.
func newPool(cidr netip.Prefix, blockBits int) *pool {
	return &pool{cidr: cidr, bits: blockBits, count: make([]uint32, 1<<(blockBits-cidr.Bits()))}
}

// take finds a free block and holds it; tries is how many it has looked at. Blocks are taken
// in turn, so that one that was freed rests as long as possible: routes to it may still be
// around.
func (p *pool) take() (block netip.Prefix, tries int, ok bool) {
	if p.used == len(p.count) {
		return netip.Prefix{}, 0, false
	}
	for p.count[p.next] > 0 {
		tries++
		p.next = (p.next + 1) % len(p.count)
	}
	block = p.block(p.next)
	p.count[p.next] = 1
	p.used++
	p.next = (p.next + 1) % len(p.count)
	return block, tries, true
}

// hold counts one more holder of all blocks that overlap cidr and returns how many of them
// had none. It is false when cidr lies outside of the pool.
func (p *pool) hold(cidr netip.Prefix) (taken int, ok bool) {
	first, last, ok := p.overlap(cidr)
	for i := first; ok && i <= last; i++ {
		if p.count[i] == 0 {
			taken++
		}
		p.count[i]++
	}
	p.used += taken
	return taken, ok
}

// free is the inverse of hold and returns how many blocks have no holder any more.
func (p *pool) free(cidr netip.Prefix) (freed int) {
	first, last, ok := p.overlap(cidr)
	for i := first; ok && i <= last; i++ {
		p.count[i]--
		if p.count[i] == 0 {
			freed++
		}
	}
	p.used -= freed
	return freed
}

// shared reports whether a block that cidr overlaps has several holders.
func (p *pool) shared(cidr netip.Prefix) bool {
	first, last, ok := p.overlap(cidr)
	return ok && slices.ContainsFunc(p.count[first:last+1], func(holders uint32) bool { return holders > 1 })
}

// overlap returns the blocks that cidr overlaps.
func (p *pool) overlap(cidr netip.Prefix) (first, last int, ok bool) {
	cidr = cidr.Masked()
	switch {
	case !p.cidr.Overlaps(cidr):
		return 0, -1, false
	case cidr.Bits() <= p.cidr.Bits():
		return 0, len(p.count) - 1, true
	}
	first = p.index(cidr.Addr())
	last = first
	if cidr.Bits() < p.bits {
		last += 1<<(p.bits-cidr.Bits()) - 1
	}
	return first, last, true
}

// shift is how far a block's number stands from the right end of an address as 128 bits.
func (p *pool) shift() uint { return uint(p.cidr.Addr().BitLen() - p.bits) }

// index is the number of the block that holds addr, which lies in the pool.
func (p *pool) index(addr netip.Addr) int {
	hi, lo := halves(addr)
	s := p.shift()
	var n uint64
	if s >= 64 {
		n = hi >> (s - 64)
	} else {
		n = hi<<(64-s) | lo>>s
	}
	return int(n & uint64(len(p.count)-1))
}

// block is the block of that number.
func (p *pool) block(index int) netip.Prefix {
	hi, lo := halves(p.cidr.Addr())
	s := p.shift()
	if s >= 64 {
		hi |= uint64(index) << (s - 64)
	} else {
		hi |= uint64(index) >> (64 - s)
		lo |= uint64(index) << s
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	addr := netip.AddrFrom16(raw)
	if p.cidr.Addr().Is4() {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, p.bits)
}

// halves is an address as 128 bits; an IPv4 address is in its last 32.
func halves(addr netip.Addr) (hi, lo uint64) {
	raw := addr.As16()
	return binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
}
