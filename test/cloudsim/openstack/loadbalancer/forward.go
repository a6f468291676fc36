package loadbalancer

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// forwarding is the data plane of one listener on one address, whose target changes.
type forwarding struct {
	*forward.Forward
	target atomic.Pointer[forward.Target]
}

func (s *Octavia) listen(key forward.Key, t *forward.Target) (*forwarding, error) {
	f := &forwarding{}
	f.target.Store(t)
	var err error
	f.Forward, err = forward.Listen(s.Context, s.Spawn, key, func(netip.Addr) *forward.Target { return f.target.Load() })
	return f, err
}

// forwardPort brings the forwarding of the load balancer with a VIP port in line; lock held.
func (s *Octavia) forwardPort(portID string) {
	for _, lb := range s.lbs {
		if lb.vipPort == portID && lb.prov != pendingCreate {
			s.forwardLB(lb)
		}
	}
}

// forwardLB makes a load balancer listen and forward as its objects say; lock held. It is false when an
// address of the VIP is taken on this host. Floating IPs whose address is taken are marked instead.
func (s *Octavia) forwardLB(lb *loadBalancer) bool {
	want := s.targets(lb)
	for key, f := range lb.forwards {
		if want[key] == nil {
			f.Stop()
			delete(lb.forwards, key)
		}
	}
	good := true
	var failed []netip.Addr
	for key, t := range want {
		if f := lb.forwards[key]; f != nil {
			f.target.Store(t)
			continue
		}
		f, err := s.listen(key, t)
		if err == nil {
			lb.forwards[key] = f
			continue
		}
		if key.At.Addr() == lb.vip {
			good = false
		}
		failed = append(failed, key.At.Addr())
	}
	s.network.MarkFailed(lb.vipPort, failed)
	s.checkHealth(lb)
	return good
}

// stopForwards ends a load balancer's data plane; lock held.
func (s *Octavia) stopForwards(lb *loadBalancer) {
	for key, f := range lb.forwards {
		f.Stop()
		delete(lb.forwards, key)
	}
	for p, h := range lb.checks {
		h.cancel()
		delete(lb.checks, p)
	}
}

// targets computes what a load balancer shall listen on, and for what.
func (s *Octavia) targets(lb *loadBalancer) map[forward.Key]*forward.Target {
	out := map[forward.Key]*forward.Target{}
	p, is := s.network.Get(lb.vipPort)
	if !lb.adminUp || !is {
		return out
	}
	addrs := []netip.Addr{lb.vip}
	for _, v := range lb.additional {
		addrs = append(addrs, v.ip)
	}
	for _, f := range p.FloatingIPs {
		if f.Fixed == lb.vip {
			addrs = append(addrs, f.IP)
		}
	}
	// Nothing listens outside of the simulator's addresses.
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !s.HasAddress(a) })
	for _, l := range lb.listeners {
		if !l.adminUp || inCreation(l) || l.protocol == "SCTP" || l.protocol == "TERMINATED_HTTPS" || l.protocol == "PROMETHEUS" {
			continue
		}
		t := l.target(s.HasAddress)
		for _, a := range addrs {
			out[forward.Key{At: netip.AddrPortFrom(a, uint16(l.port)), UDP: l.protocol == "UDP", HTTP: l.protocol == "HTTP"}] = t
		}
	}
	return out
}

func (x *listener) target(reachable func(netip.Addr) bool) *forward.Target {
	t := &forward.Target{From: x.lb.vip, Connect: time.Duration(x.timeouts.connect) * time.Millisecond}
	for name, value := range x.insertHeaders {
		if on, _ := dialect.ParseBool(value); on {
			t.Headers = append(t.Headers, name)
		}
	}
	for _, c := range x.cidrs {
		if p, err := netip.ParsePrefix(c); err == nil {
			t.CIDRs = append(t.CIDRs, p)
		}
	}
	p := x.pool
	if p == nil || !p.adminUp {
		return t
	}
	t.Sticky = p.persistence != nil && p.persistence.Type == "SOURCE_IP" || p.algorithm == "SOURCE_IP" || p.algorithm == "SOURCE_IP_PORT"
	switch p.protocol {
	case "PROXY":
		t.Proxy = 1
	case "PROXYV2":
		t.Proxy = 2
	}
	for _, m := range p.serving(reachable) {
		for range max(1, min(m.weight, 16)) {
			t.Backends = append(t.Backends, netip.AddrPortFrom(m.address, uint16(m.port)))
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
