package cloud

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AddressList makes an Instance's Addresses.
type AddressList struct {
	// IPv4Only leaves IPv6 addresses out.
	IPv4Only bool
	// List is what it holds; host names are appended to it.
	List []corev1.NodeAddress
}

// Add appends an IP address unless it is there with that type, is no IP address, or is IPv6
// where that is left out.
func (l *AddressList) Add(typ corev1.NodeAddressType, address string) {
	ip, err := netip.ParseAddr(address)
	if err != nil || (l.IPv4Only && !ip.Unmap().Is4()) {
		return
	}
	a := corev1.NodeAddress{Type: typ, Address: address}
	if !slices.Contains(l.List, a) {
		l.List = append(l.List, a)
	}
}

// Remove takes an address out, whatever its type.
func (l *AddressList) Remove(address string) {
	l.List = slices.DeleteFunc(l.List, func(a corev1.NodeAddress) bool { return a.Address == address })
}

// Sort moves the addresses of the first prefix to the front in ascending order, then those of
// the second, and so on; the rest keep their order behind.
func (l *AddressList) Sort(order []netip.Prefix) {
	rank := func(a corev1.NodeAddress) (int, netip.Addr) {
		ip, _ := netip.ParseAddr(a.Address)
		if i := slices.IndexFunc(order, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) }); i >= 0 {
			return i, ip.Unmap()
		}
		return len(order), netip.Addr{}
	}
	slices.SortStableFunc(l.List, func(a, b corev1.NodeAddress) int {
		ra, ipa := rank(a)
		rb, ipb := rank(b)
		return cmp.Or(cmp.Compare(ra, rb), ipa.Compare(ipb))
	})
}
