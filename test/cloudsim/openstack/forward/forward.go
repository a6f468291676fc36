package openstack

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// forwardKey is one address that a load balancer listens on.
type forwardKey struct {
	at  netip.AddrPort
	udp bool
}

// forward is the data plane of one listener on one address.
type forward struct {
	cloud  *core.Cloud
	key    forwardKey
	target atomic.Pointer[target]
	next   atomic.Uint64 // round robin
	ctx    context.Context
	cancel context.CancelFunc
	close  func() error
}

// target is what a forward does with its traffic; it is not changed once it is stored.
type target struct {
	listener string
	// http says that requests, not connections, are forwarded, with headers added.
	http    bool
	headers map[string]string
	// proxy is 1 or 2 when a PROXY protocol header goes first.
	proxy    int
	sticky   bool
	cidrs    []netip.Prefix
	backends []netip.AddrPort
	// from is the address that members see connections come from: the VIP, as behind an amphora.
	from    netip.Addr
	connect time.Duration
}

// listenForward starts to listen, and ends with the simulator at the latest.
func listenForward(cloud *core.Cloud, key forwardKey, t *target) (*forward, error) {
	f := &forward{cloud: cloud, key: key}
	f.ctx, f.cancel = context.WithCancel(cloud.Context)
	f.target.Store(t)
	var err error
	if key.udp {
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

// stop ends listening at once and cuts what is being forwarded.
func (f *forward) stop() {
	f.cancel()
	_ = f.close()
}

// allows reports whether the listener's allowed_cidrs let a client in; none let everybody in.
func (t *target) allows(client netip.Addr) bool {
	return len(t.cidrs) == 0 || slices.ContainsFunc(t.cidrs, func(p netip.Prefix) bool { return p.Contains(client) })
}

// order lists the backends in the order in which a client's connection tries them.
func (f *forward) order(t *target, client netip.Addr) []netip.AddrPort {
	if len(t.backends) == 0 {
		return nil
	}
	var at uint64
	if t.sticky {
		h := fnv.New64a()
		b := client.As16()
		_, _ = h.Write(b[:]) // never fails
		at = binary.BigEndian.Uint64(h.Sum(nil))
	} else {
		at = f.next.Add(1) - 1
	}
	i := int(at % uint64(len(t.backends)))
	out := slices.Concat(t.backends[i:], t.backends[:i])
	seen := map[netip.AddrPort]bool{}
	return slices.DeleteFunc(out, func(b netip.AddrPort) bool {
		again := seen[b]
		seen[b] = true
		return again
	})
}

// clientAddr is the address of a connection's other end.
func clientAddr(a net.Addr) netip.AddrPort {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
