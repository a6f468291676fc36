package network

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

// firstFree is how far into a seeded subnet its ports' addresses begin.
const firstFree = 10

// newSubnet makes a subnet whose gateway is its first address; lock held.
func (s *Neutron) newSubnet(n *network, cidr netip.Prefix, name, project string) *subnet {
	gw := cidr.Addr().Next()
	if gw.Is6() {
		gw = cidr.Addr() // of IPv6 Neutron takes the first address
	}
	sub := &subnet{
		Entity: s.newEntity(project, name), networkID: n.ID, cidr: cidr, gateway: gw, dhcp: true,
		pools: []addressRange{{gw.Next(), lastHost(cidr)}},
		used:  map[netip.Addr]string{},
	}
	sub.next = sub.pools[0].first
	s.subnets[sub.ID] = sub
	return sub
}

// lastHost is the last address of a net that a host may have; not the broadcast address of IPv4.
func lastHost(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		for bit := range 8 {
			if i*8+bit >= p.Bits() {
				b[i] |= 1 << (7 - bit)
			}
		}
	}
	last, _ := netip.AddrFromSlice(b)
	if last.Is4() {
		return last.Prev()
	}
	return last
}

// take gives the next free address of the pools to a port. Addresses come one after the other and are
// used again only when all others had their turn.
func (sub *subnet) take(portID string) (netip.Addr, error) {
	at := sub.poolOf(sub.next)
	if at < 0 {
		at, sub.next = 0, sub.pools[0].first
	}
	ip := sub.next
	for wraps := 0; wraps <= len(sub.pools); {
		if _, used := sub.used[ip]; !used && ip != sub.gateway {
			sub.used[ip] = portID
			sub.next = ip.Next()
			return ip, nil
		}
		if ip == sub.pools[at].last {
			at = (at + 1) % len(sub.pools)
			ip = sub.pools[at].first
			wraps++
			continue
		}
		ip = ip.Next()
	}
	return netip.Addr{}, core.Errorf(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", sub.networkID)
}

func (sub *subnet) poolOf(ip netip.Addr) int {
	for i, p := range sub.pools {
		if !ip.Less(p.first) && !p.last.Less(ip) {
			return i
		}
	}
	return -1
}

// takeThis gives one address to a port.
func (sub *subnet) takeThis(ip netip.Addr, portID string) error {
	if !sub.cidr.Contains(ip) {
		return core.Errorf(http.StatusBadRequest, "InvalidIpForSubnet", "IP address %s is not a valid IP for the specified subnet.", ip)
	}
	if _, used := sub.used[ip]; used {
		return core.Errorf(http.StatusConflict, "IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", ip, sub.ID)
	}
	sub.used[ip] = portID
	return nil
}

// subnetsOf lists a network's subnets in order of creation.
func (s *Neutron) subnetsOf(networkID string) []*subnet {
	var out []*subnet
	for _, sub := range resource.BySeq(s.subnets) {
		if sub.networkID == networkID {
			out = append(out, sub)
		}
	}
	return out
}

// allocate gives a port its addresses: those wished, or without wishes one of the first
// subnet of each IP version. On an error nothing stays allocated.
func (s *Neutron) allocate(p *port, wishes []core.FixedIPWish, asked bool) error {
	if !asked {
		wishes = s.usualWishes(p.networkID)
	}
	var got []core.FixedIP
	for _, w := range wishes {
		ip, err := s.allocateOne(p, w)
		if err != nil {
			s.release(got)
			return err
		}
		got = append(got, ip)
	}
	p.fixed = got
	return nil
}

func (s *Neutron) usualWishes(networkID string) []core.FixedIPWish {
	var v4, v6 []core.FixedIPWish
	for _, sub := range s.subnetsOf(networkID) {
		switch wish := (core.FixedIPWish{SubnetID: sub.ID}); {
		case sub.cidr.Addr().Is4() && v4 == nil:
			v4 = append(v4, wish)
		case sub.cidr.Addr().Is6() && v6 == nil && !sub.auto():
			v6 = append(v6, wish)
		}
	}
	return append(v4, v6...)
}

// auto reports whether ports make their own addresses of the subnet (SLAAC).
func (sub *subnet) auto() bool { return sub.mode == "slaac" || sub.mode == "dhcpv6-stateless" }

// autoAddress gives a port, which must not be a router's, its addresses of the subnets with SLAAC.
func (s *Neutron) autoAddress(p *port) {
	for _, sub := range s.subnetsOf(p.networkID) {
		has := slices.ContainsFunc(p.fixed, func(ip core.FixedIP) bool { return ip.SubnetID == sub.ID })
		if !sub.auto() || has {
			continue
		}
		ip := eui64(sub.cidr, p.mac)
		sub.used[ip] = p.ID
		p.fixed = append(slices.Clone(p.fixed), core.FixedIP{SubnetID: sub.ID, IP: ip})
	}
}

// eui64 is the address that a host with a MAC address makes itself in a subnet.
func eui64(cidr netip.Prefix, mac string) netip.Addr {
	b := cidr.Addr().As16()
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return cidr.Addr()
	}
	copy(b[8:], []byte{hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]})
	return netip.AddrFrom16(b)
}

func (s *Neutron) allocateOne(p *port, w core.FixedIPWish) (core.FixedIP, error) {
	sub, err := s.wishedSubnet(p, w)
	if err != nil {
		return core.FixedIP{}, err
	}
	if w.IP == "" && sub.auto() {
		ip := eui64(sub.cidr, p.mac)
		return core.FixedIP{SubnetID: sub.ID, IP: ip}, sub.takeThis(ip, p.ID)
	}
	if w.IP == "" {
		ip, err := sub.take(p.ID)
		return core.FixedIP{SubnetID: sub.ID, IP: ip}, err
	}
	ip, err := netip.ParseAddr(w.IP)
	if err != nil {
		return core.FixedIP{}, dialect.BadRequest("Invalid input for fixed_ips. Reason: '%s' is not a valid IP address.", w.IP)
	}
	return core.FixedIP{SubnetID: sub.ID, IP: ip}, sub.takeThis(ip, p.ID)
}

func (s *Neutron) wishedSubnet(p *port, w core.FixedIPWish) (*subnet, error) {
	if w.SubnetID != "" {
		if !dialect.IsUUID(w.SubnetID) {
			return nil, dialect.BadRequest("Invalid input for fixed_ips. Reason: '%s' is not a valid UUID.", w.SubnetID)
		}
		sub, is := s.subnets[w.SubnetID]
		if !is {
			return nil, core.Errorf(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", w.SubnetID)
		}
		if sub.networkID != p.networkID {
			return nil, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.", p.networkID, sub.ID)
		}
		return sub, nil
	}
	ip, err := netip.ParseAddr(w.IP)
	if err != nil {
		return nil, dialect.BadRequest("Invalid input for fixed_ips. Reason: '%s' is not a valid IP address.", w.IP)
	}
	for _, sub := range s.subnetsOf(p.networkID) {
		if sub.cidr.Contains(ip) {
			return sub, nil
		}
	}
	return nil, core.Errorf(http.StatusBadRequest, "InvalidIpForNetwork", "IP address %s is not a valid IP for any of the subnets on the specified network.", ip)
}

func (s *Neutron) release(ips []core.FixedIP) {
	for _, ip := range ips {
		if sub := s.subnets[ip.SubnetID]; sub != nil {
			delete(sub.used, ip.IP)
		}
	}
}

// newMAC returns the next address of Neutron's range.
func (s *Neutron) newMAC() string {
	s.macs++
	n := s.macs
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
}
