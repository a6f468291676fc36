package ec2

import (
	"net/netip"
	"slices"
)

// Flow is traffic to a port, from an address, and from whatever has security groups.
type Flow struct {
	Protocol string // "tcp" or "udp"
	Port     int
	From     netip.Addr
	Groups   []string
}

// LetsIn reports whether who has security groups gets traffic; who has none gets all.
func (r *Region) LetsIn(groups []string, f Flow) bool {
	r.lock()
	defer r.mu.Unlock()
	return r.letsIn(groups, f)
}

// letsIn is LetsIn. Locked.
func (r *Region) letsIn(groups []string, f Flow) bool {
	return len(groups) == 0 || slices.ContainsFunc(groups, func(id string) bool {
		g := r.groups.Get(id)
		return g != nil && slices.ContainsFunc(g.Rules, f.matches)
	})
}

// Deliver is where traffic to an instance arrives. delivered is false where nobody lets it in, or its address is none of this machine's.
func (r *Region) Deliver(instance string, f Flow) (at netip.AddrPort, delivered bool) {
	r.lock()
	defer r.mu.Unlock()
	i := r.instances.Get(instance)
	if i == nil || i.Primary() == nil || !r.letsIn(i.Primary().Groups, f) {
		return netip.AddrPort{}, false
	}
	at = netip.AddrPortFrom(onLoopback(i.PrivateIP), uint16(f.Port)) //nolint:gosec // a port
	return at, at.Addr().IsValid()
}

func (f *Flow) matches(u Rule) bool {
	if u.Egress || u.Protocol != "-1" && (u.Protocol != f.Protocol || f.Port < u.FromPort || f.Port > u.ToPort) {
		return false
	}
	if u.Group != "" {
		return slices.Contains(f.Groups, u.Group)
	}
	from, err := netip.ParsePrefix(u.CIDR + u.CIDR6)
	return err == nil && from.Contains(f.From)
}

// Located is what an interface has of addresses of this machine: its private one, and the public one that leads there.
func (r *Region) Located(interfaceID string) (private, public netip.Addr) {
	r.lock()
	defer r.mu.Unlock()
	n := r.interfaces.Get(interfaceID)
	if n == nil {
		return netip.Addr{}, netip.Addr{}
	}
	return onLoopback(n.PrivateIP()), onLoopback(n.PublicIP)
}

// onLoopback is an address of this machine; the zero value for others.
func onLoopback(text string) netip.Addr {
	if a, err := netip.ParseAddr(text); err == nil && a.IsLoopback() {
		return a
	}
	return netip.Addr{}
}
