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
)

// forwardKey is one address that a load balancer listens on.
type forwardKey struct {
	at  netip.AddrPort
	udp bool
}

// forward is the data plane of one listener on one address.
type forward struct {
	sim    *Sim
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

// forwardPort brings the forwarding of the load balancer with a VIP port in line; mu held.
func (s *Sim) forwardPort(portID string) {
	for _, lb := range s.lb.lbs {
		if lb.vipPort == portID && lb.prov != pendingCreate {
			s.forwardLB(lb)
		}
	}
}

// forwardLB makes a load balancer listen and forward as its objects say; mu held. It is false when an
// address of the VIP is taken on this host. Floating IPs whose address is taken are marked instead.
func (s *Sim) forwardLB(lb *loadBalancer) bool {
	want := s.targets(lb)
	for key, f := range lb.forwards {
		if t := want[key]; t == nil || t.http != f.target.Load().http {
			f.stop()
			delete(lb.forwards, key)
		}
	}
	for _, fip := range s.network.fipsByPort[lb.vipPort] {
		fip.failed = false
	}
	good := true
	for key, t := range want {
		if f := lb.forwards[key]; f != nil {
			f.target.Store(t)
			continue
		}
		f, err := s.listenForward(key, t)
		if err == nil {
			lb.forwards[key] = f
			continue
		}
		if key.at.Addr() == lb.vip {
			good = false
		}
		for _, fip := range s.network.fipsByPort[lb.vipPort] {
			fip.failed = fip.failed || fip.ip == key.at.Addr()
		}
	}
	s.checkHealth(lb)
	return good
}

// stopForwards ends a load balancer's data plane; mu held.
func (s *Sim) stopForwards(lb *loadBalancer) {
	for key, f := range lb.forwards {
		f.stop()
		delete(lb.forwards, key)
	}
	for p, h := range lb.checks {
		h.cancel()
		delete(lb.checks, p)
	}
}

// targets computes what a load balancer shall listen on, and for what.
func (s *Sim) targets(lb *loadBalancer) map[forwardKey]*target {
	out := map[forwardKey]*target{}
	if !lb.adminUp || s.network.ports[lb.vipPort] == nil {
		return out
	}
	addrs := []netip.Addr{lb.vip}
	for _, v := range lb.additional {
		addrs = append(addrs, v.ip)
	}
	for _, f := range s.network.fipsByPort[lb.vipPort] {
		if f.fixed == lb.vip {
			addrs = append(addrs, f.ip)
		}
	}
	// Nothing listens outside of the simulator's addresses.
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !s.opts.hasAddress(a) })
	for _, l := range lb.listeners {
		if !l.adminUp || inCreation(l) || l.protocol == "SCTP" || l.protocol == "TERMINATED_HTTPS" || l.protocol == "PROMETHEUS" {
			continue
		}
		t := l.target(s.opts.hasAddress)
		for _, a := range addrs {
			out[forwardKey{netip.AddrPortFrom(a, uint16(l.port)), l.protocol == "UDP"}] = t
		}
	}
	return out
}

func (x *listener) target(reachable func(netip.Addr) bool) *target {
	t := &target{listener: x.id, http: x.protocol == "HTTP", headers: x.insertHeaders, from: x.lb.vip, connect: time.Duration(x.timeouts.connect) * time.Millisecond}
	for _, c := range x.cidrs {
		if p, err := netip.ParsePrefix(c); err == nil {
			t.cidrs = append(t.cidrs, p)
		}
	}
	p := x.pool
	if p == nil || !p.adminUp {
		return t
	}
	t.sticky = p.persistence != nil && p.persistence.Type == "SOURCE_IP" || p.algorithm == "SOURCE_IP" || p.algorithm == "SOURCE_IP_PORT"
	switch p.protocol {
	case "PROXY":
		t.proxy = 1
	case "PROXYV2":
		t.proxy = 2
	}
	for _, m := range p.serving(reachable) {
		for range max(1, min(m.weight, 16)) {
			t.backends = append(t.backends, netip.AddrPortFrom(m.address, uint16(m.port)))
		}
	}
	return t
}

// serving lists the members that get traffic: enabled, with a weight, not found dead, and with an
// address that the simulator may reach; backup members only when there are no others.
func (x *pool) serving(reachable func(netip.Addr) bool) []*member {
	var main, backup []*member
	for _, m := range x.members {
		if !m.adminUp || m.weight == 0 || inCreation(m) || m.oper == inError || !reachable(m.address) {
			continue
		}
		if m.backup {
			backup = append(backup, m)
		} else {
			main = append(main, m)
		}
	}
	if len(main) == 0 {
		return backup
	}
	return main
}

// listenForward starts to listen; mu held.
func (s *Sim) listenForward(key forwardKey, t *target) (*forward, error) {
	f := &forward{sim: s, key: key}
	f.ctx, f.cancel = context.WithCancel(s.ctx)
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
