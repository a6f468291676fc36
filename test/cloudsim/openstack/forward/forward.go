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

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Key is one address that a load balancer listens on.
type Key struct {
	At  netip.AddrPort
	UDP bool
}

// Forward is the data plane of one listener on one address.
type Forward struct {
	cloud *core.Cloud
	key   Key
	// Target may be stored anew, but not with another HTTP.
	Target atomic.Pointer[Target]
	next   atomic.Uint64 // round robin
	ctx    context.Context
	cancel context.CancelFunc
	close  func() error
}

// Target is what a forward does with its traffic; it is not changed once it is stored.
type Target struct {
	// HTTP says that requests, not connections, are forwarded, with headers added.
	HTTP    bool
	Headers map[string]string
	// Proxy is 1 or 2 when a PROXY protocol header goes first.
	Proxy    int
	Sticky   bool
	CIDRs    []netip.Prefix
	Backends []netip.AddrPort
	// From is the address that members see connections come from: the VIP, as behind an amphora.
	From    netip.Addr
	Connect time.Duration
}

// Listen starts to listen, and ends with the simulator at the latest.
func Listen(cloud *core.Cloud, key Key, t *Target) (*Forward, error) {
	f := &Forward{cloud: cloud, key: key}
	f.ctx, f.cancel = context.WithCancel(cloud.Context)
	f.Target.Store(t)
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

// allows reports whether the listener's allowed_cidrs let a client in; none let everybody in.
func (t *Target) allows(client netip.Addr) bool {
	return len(t.CIDRs) == 0 || slices.ContainsFunc(t.CIDRs, func(p netip.Prefix) bool { return p.Contains(client) })
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

// clientAddr is the address of a connection's other end.
func clientAddr(a net.Addr) netip.AddrPort {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
