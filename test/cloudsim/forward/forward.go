package forward

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Key is one address that a load balancer listens on.
type Key struct {
	At  netip.AddrPort
	UDP bool
	// HTTP says that requests, not connections, are forwarded.
	HTTP bool
}

// Forward is the data plane of one listener on one address.
type Forward struct {
	key    Key
	route  func(client netip.Addr) *Target
	spawn  func(func(context.Context))
	next   atomic.Uint64 // round robin
	ctx    context.Context
	cancel context.CancelFunc
	close  func() error
}

// Target is what a forward does with traffic; it is not changed once it is given.
type Target struct {
	// Headers are those that requests get, of X-Forwarded-For, X-Forwarded-Port and X-Forwarded-Proto.
	Headers []string
	// Proxy is 1 or 2 when a PROXY protocol header goes first.
	Proxy    int
	Sticky   bool
	CIDRs    []netip.Prefix
	Backends []netip.AddrPort
	// From is the address that members see connections come from; the zero value is any of this machine's.
	From    netip.Addr
	Connect time.Duration
}

// Listen starts to listen, until ctx ends at the latest. spawn runs what runs in the background, for somebody who waits for its end.
// route says what becomes of a client's traffic, each time that some comes; nil is as if nobody listened.
func Listen(ctx context.Context, spawn func(func(context.Context)), key Key, route func(client netip.Addr) *Target) (*Forward, error) {
	f := &Forward{key: key, route: route, spawn: spawn}
	f.ctx, f.cancel = context.WithCancel(ctx)
	var err error
	if key.UDP {
		err = f.listenUDP()
	} else {
		err = f.listenTCP()
	}
	if err != nil {
		f.cancel()
		return nil, err
	}
	return f, nil
}

// Stop ends listening at once and cuts what is being forwarded.
func (f *Forward) Stop() {
	f.cancel()
	_ = f.close()
}

// allows reports whether a client is let in; no CIDRs let everybody in.
func (t *Target) allows(client netip.Addr) bool {
	return t != nil && (len(t.CIDRs) == 0 || slices.ContainsFunc(t.CIDRs, func(p netip.Prefix) bool { return p.Contains(client) }))
}

// order lists the backends in the order in which a client's connection tries them.
func (f *Forward) order(t *Target, client netip.Addr) []netip.AddrPort {
	if len(t.Backends) == 0 {
		return nil
	}
	var at uint64
	if t.Sticky {
		h := fnv.New64a()
		b := client.As16()
		_, _ = h.Write(b[:]) // never fails
		at = binary.BigEndian.Uint64(h.Sum(nil))
	} else {
		at = f.next.Add(1) - 1
	}
	i := int(at % uint64(len(t.Backends)))
	out := slices.Concat(t.Backends[i:], t.Backends[:i])
	seen := map[netip.AddrPort]bool{}
	return slices.DeleteFunc(out, func(b netip.AddrPort) bool {
		again := seen[b]
		seen[b] = true
		return again
	})
}

// pause lets d pass; false when the forward ends first.
func (f *Forward) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// clientAddr is the address of a connection's other end.
func clientAddr(a net.Addr) netip.AddrPort {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
