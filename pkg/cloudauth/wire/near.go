package wire

import "net/netip"

// IsNear reports whether a host is this machine, or is reached on its link alone, which nobody else can listen
// to: such may be spoken to without TLS. networks are others of which that is true in a cloud.
func IsNear(host string, networks ...netip.Prefix) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, n := range networks {
		if n.Contains(ip) {
			return true
		}
	}
	return ip.IsLoopback() || ip.IsLinkLocalUnicast()
}
