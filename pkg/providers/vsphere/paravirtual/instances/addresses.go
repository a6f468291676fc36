package instances

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
)

// addresses are a machine's InternalIPs: its primary ones in the order of the cluster's families, then those of its interfaces in
// their order, which leaves out link-local ones. There is no host name among them, as a Supervisor knows none: the Node keeps the
// one that it has.
func addresses(m *machine, c *config.Cluster) []corev1.NodeAddress {
	var l cloud.AddressList
	seen := map[netip.Addr]bool{}
	add := func(text string, isPrimary bool) {
		bare, _, _ := strings.Cut(text, "/") // interfaces tell it with the length of its prefix
		a, err := netip.ParseAddr(bare)
		if err != nil {
			return
		}
		a = a.Unmap()
		wanted := a.Is4() && c.IPv4() || a.Is6() && c.IPv6()
		if !wanted || seen[a] || a.IsLinkLocalUnicast() && !isPrimary {
			return
		}
		seen[a] = true
		l.Add(corev1.NodeInternalIP, bare)
	}
	n := &m.Status.Network
	primary := []string{n.PrimaryIP4, n.PrimaryIP6}
	if c.IPv6First() {
		primary = []string{n.PrimaryIP6, n.PrimaryIP4}
	}
	for _, a := range primary {
		add(a, true)
	}
	for _, nic := range n.Interfaces {
		for _, a := range nic.IP.Addresses {
			add(a.Address, false)
		}
	}
	return l.List
}
