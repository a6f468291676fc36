package openstack

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// members are those that have an address of the family, each address once.
func (b *treeBuilder) members(ipv6 bool) []cloud.LoadBalancerMember {
	var out []cloud.LoadBalancerMember
	var without []string
	byAddress := map[netip.Addr]string{}
	for _, m := range b.w.spec.Members {
		addr, ok := memberAddress(m, ipv6)
		if !ok {
			without = append(without, m.Node.NodeName)
			continue
		}
		if other, ok := byAddress[addr]; ok {
			b.warnf("nodes %s and %s have the same address %s: only the first gets traffic", other, m.Node.NodeName, addr)
			continue
		}
		byAddress[addr] = m.Node.NodeName
		out = append(out, m)
	}
	if len(without) > 0 {
		family := corev1.IPv4Protocol
		if ipv6 {
			family = corev1.IPv6Protocol
		}
		b.warnf("%d nodes have no %s address and get no traffic of it: %s", len(without), family,
			strings.Join(without[:min(len(without), 10)], ", "))
	}
	return out
}

// memberAddress is a Node's first address of the family.
func memberAddress(m cloud.LoadBalancerMember, ipv6 bool) (netip.Addr, bool) {
	for _, a := range m.Addresses {
		if a.Is6() == ipv6 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// memberSubnetFor is the subnet that the configuration names for members of the family, ""
// when it is to be found out.
func (w *lbWishes) memberSubnetFor(ipv6 bool) string {
	if w.memberSubnet == "" || w.memberCIDR.IsValid() && w.memberCIDR.Addr().Is6() != ipv6 {
		return ""
	}
	return w.memberSubnet
}

// readMemberSubnet finds out the family of the subnet that the configuration names.
func (o *lbOperation) readMemberSubnet(ctx context.Context, w *lbWishes) error {
	if w.memberSubnet == "" {
		return nil
	}
	cidr, err := o.lb.subnets.CIDR(ctx, w.memberSubnet)
	if cloud.IsNotFound(err) { // another project's, perhaps: Octavia will tell
		return nil
	}
	w.memberCIDR = cidr
	return err
}

// setMemberSubnets fills in the subnets of the members that have none. A wrong subnet cuts a
// member off, so where the configuration does not name it, it is found out: the likely one or the
// VIP's if it holds the address, otherwise that of the Neutron port which has the address. Members for which
// there is none are left without: Octavia then uses the VIP's network.
func (o *lbOperation) setMemberSubnets(ctx context.Context, w *lbWishes, vipSubnetID string, members []lbMember) error {
	for i := range members {
		m := &members[i]
		if m.SubnetID != "" {
			continue
		}
		id, err := o.subnetOf(ctx, w, m.endpoint().Addr(), w.likelySubnet, vipSubnetID)
		if err != nil {
			return err
		}
		m.SubnetID = id
	}
	return nil
}

// subnetOf finds the subnet that holds addr, asking Neutron only for what no earlier answer tells.
func (o *lbOperation) subnetOf(ctx context.Context, w *lbWishes, addr netip.Addr, likely ...string) (string, error) {
	for _, id := range likely {
		if id == "" {
			continue
		}
		cidr, err := o.lb.subnets.CIDR(ctx, id)
		if err != nil && !cloud.IsNotFound(err) { // not found: it may be another project's
			return "", err
		}
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	for id, cidr := range o.subnets {
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	id, err := o.subnetOfPort(ctx, w, addr)
	if err != nil || id == "" {
		return "", err
	}
	cidr, err := o.lb.subnets.CIDR(ctx, id)
	if err == nil {
		o.subnets[id] = cidr
	}
	return id, err
}

// subnetOfPort finds the subnet by the port of the member's server: a project may well have
// several networks with the same CIDR, each with a server of that address.
func (o *lbOperation) subnetOfPort(ctx context.Context, w *lbWishes, addr netip.Addr) (string, error) {
	query := url.Values{"fixed_ips": {"ip_address=" + addr.String()}}
	server := w.serverAt(addr)
	if server != "" {
		query.Set("device_id", server)
	}
	ports, err := api.ListAll[neutron.Port](ctx, o.neutron, "ports", query, "ports")
	if err != nil {
		return "", api.WrapError("find the port with address "+addr.String(), err)
	}
	var found []string
	for _, p := range ports {
		if server == "" && !strings.HasPrefix(p.DeviceOwner, "compute:") {
			continue
		}
		for _, f := range p.FixedIPs {
			if f.IPAddress == addr.String() && !slices.Contains(found, f.SubnetID) {
				found = append(found, f.SubnetID)
			}
		}
	}
	if len(found) > 1 {
		return "", cloud.Errorf(cloud.KindInvalid, "servers in subnets %s have the address %s: set [LoadBalancer] member-subnet-id and subnet-id in cloud.conf or the annotations %s and %s",
			strings.Join(found, ", "), addr, annMemberSubnetID, annSubnetID)
	}
	return strings.Join(found, ""), nil
}

// near are the Nodes that tell in which networks the cluster is: the members or, where none is
// selected, those that could have been.
func (w *lbWishes) near() []cloud.LoadBalancerMember {
	if len(w.spec.Members) > 0 {
		return w.spec.Members
	}
	return w.spec.Candidates
}

// serverAt is the ID of the server of the Node with the address, "" when it is not known.
func (w *lbWishes) serverAt(addr netip.Addr) string {
	for _, m := range w.near() {
		if a, ok := memberAddress(m, addr.Is6()); ok && a == addr {
			if id, _, err := providerid.Parse(m.Node.ProviderID); err == nil {
				return id
			}
		}
	}
	return ""
}
