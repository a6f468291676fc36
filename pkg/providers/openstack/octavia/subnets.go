package octavia

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// withMemberCIDR is a Service with the CIDR, and so the family, of the subnet that the configuration names.
func (r *reconciliation) withMemberCIDR(ctx context.Context, svc *plan.Service) (*plan.Service, error) {
	if svc.MemberSubnet == "" {
		return svc, nil
	}
	cidr, err := r.subnets.CIDR(ctx, svc.MemberSubnet)
	if cloud.IsNotFound(err) { // another project's, perhaps: Octavia will tell
		return svc, nil
	}
	return svc.WithMemberCIDR(cidr), err
}

// setMemberSubnets fills in the subnets of the members that have none. A wrong subnet cuts a
// member off, so where the configuration does not name it, it is found out: the likely one or the
// VIP's if it holds the address, otherwise that of the Neutron port which has the address. Members for which
// there is none are left without: Octavia then uses the VIP's network.
func (r *reconciliation) setMemberSubnets(ctx context.Context, vipSubnetID string, members []plan.Member) (err error) {
	for i := range members {
		m := &members[i]
		if m.SubnetID != "" {
			continue
		}
		if m.SubnetID, err = r.findSubnet(ctx, m.Endpoint().Addr(), r.service.LikelySubnet, vipSubnetID); err != nil {
			return err
		}
	}
	return nil
}

// findSubnet finds the subnet that holds addr, asking Neutron only for what no earlier answer tells.
func (r *reconciliation) findSubnet(ctx context.Context, addr netip.Addr, likely ...string) (string, error) {
	for _, id := range likely {
		if id == "" {
			continue
		}
		cidr, err := r.subnets.CIDR(ctx, id)
		if err != nil && !cloud.IsNotFound(err) { // not found: it may be another project's
			return "", err
		}
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	for id, cidr := range r.subnetOf {
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	id, err := r.subnetOfPort(ctx, addr)
	if err != nil || id == "" {
		return "", err
	}
	cidr, err := r.subnets.CIDR(ctx, id)
	if err == nil {
		r.subnetOf[id] = cidr
	}
	return id, err
}

// subnetOfPort finds the subnet by the port of the member's server: a project may well have
// several networks with the same CIDR, each with a server of that address.
func (r *reconciliation) subnetOfPort(ctx context.Context, addr netip.Addr) (string, error) {
	found, err := r.subnets.OfAddress(ctx, addr, r.service.ServerAt(addr))
	if err != nil {
		return "", err
	}
	if len(found) > 1 {
		return "", cloud.Errorf(cloud.KindInvalid, "servers in subnets %s have the address %s: set [LoadBalancer] member-subnet-id and subnet-id in cloud.conf or the annotations %s and %s",
			strings.Join(found, ", "), addr, plan.AnnMemberSubnetID, plan.AnnSubnetID)
	}
	return strings.Join(found, ""), nil
}

// subnetOfMembers is where the VIP goes when nothing says otherwise: the first member's subnet or,
// where there is no member, the first Node's.
func (r *reconciliation) subnetOfMembers(ctx context.Context) (string, error) {
	const nextStep = "set [LoadBalancer] subnet-id in cloud.conf or the annotation " + plan.AnnSubnetID
	for _, m := range r.service.Near() {
		addr, ok := family.Address(m, r.service.IsIPv6())
		if !ok {
			continue
		}
		id, err := r.subnetOfPort(ctx, addr)
		if err == nil && id == "" {
			err = cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: no server's port has the address %s of node %s; %s", addr, m.Node.NodeName, nextStep)
		}
		return id, err
	}
	return "", cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: there is no node to take it from; %s", nextStep)
}

// vipFamily makes the VIP one of the Service's first family: where a subnet of the other is
// named, as cloud.conf does for all Services, it takes one of the same network. Octavia
// would take an IPv4 subnet of a network.
func (r *reconciliation) vipFamily(ctx context.Context, opts *loadbalancers.CreateOpts) error {
	network, ipv6 := opts.VipNetworkID, r.service.IsIPv6()
	switch {
	case opts.VipPortID != "" || opts.VipAddress != "" && opts.VipSubnetID == "":
		return nil
	case opts.VipSubnetID != "":
		cidr, err := r.subnets.CIDR(ctx, opts.VipSubnetID)
		if cloud.IsNotFound(err) || err == nil && cidr.Addr().Is6() == ipv6 {
			return nil // another project's, perhaps: Octavia will tell
		}
		if err == nil && network == "" {
			network, err = r.subnets.NetworkOf(ctx, opts.VipSubnetID)
		}
		if err != nil {
			return err
		}
	case !ipv6:
		return nil
	}
	subnet, err := r.subnetOn(ctx, network, ipv6)
	var none *noSubnet
	if errors.As(err, &none) {
		return &cloud.Error{Kind: cloud.KindInvalid, Err: fmt.Errorf("no subnet for the VIP of the Service's first family: %w; set [LoadBalancer] subnet-id in cloud.conf or the annotation %s", err, plan.AnnSubnetID)}
	}
	opts.VipSubnetID = subnet
	return err
}

// additionalVIPsMinor is the version 2.x of Octavia's API that has additional VIPs.
const additionalVIPsMinor = 26

// planSecond finds the subnet of a new load balancer's additional VIP, and notes why there
// can be none.
func (r *reconciliation) planSecond(ctx context.Context, opts *loadbalancers.CreateOpts) (second bool, err error) {
	if !r.service.TwoFamilies() {
		return false, nil
	}
	if r.oneVIP = r.service.OneVIP(); r.oneVIP != "" {
		return false, nil
	}
	minor, err := r.octavia.Minor(ctx)
	if err != nil {
		return false, err
	}
	if minor < additionalVIPsMinor {
		r.oneVIP = fmt.Sprintf("this Octavia speaks version 2.%d of its API, and additional VIPs need 2.%d", minor, additionalVIPsMinor)
		return false, nil
	}
	network := opts.VipNetworkID
	if network == "" {
		if network, err = r.subnets.NetworkOf(ctx, opts.VipSubnetID); err != nil {
			return false, err
		}
	}
	subnet, err := r.subnetOn(ctx, network, !r.service.IsIPv6())
	var none *noSubnet
	switch {
	case errors.As(err, &none):
		r.oneVIP = none.reason
		return false, nil
	case err != nil:
		return false, err
	}
	opts.AdditionalVips = []loadbalancers.AdditionalVip{{SubnetID: subnet}}
	return r.service.Config.Provider != config.ProviderOVN, nil // which makes no use of it in some versions
}

// noSubnet says why a network has no subnet to take.
type noSubnet struct{ reason string }

func (n *noSubnet) Error() string { return n.reason }

// subnetOn is the subnet of a network for VIPs of a family: the only one, or the one that
// the Nodes are in.
func (r *reconciliation) subnetOn(ctx context.Context, network string, ipv6 bool) (string, error) {
	version, family := "4", corev1.IPv4Protocol
	if ipv6 {
		version, family = "6", corev1.IPv6Protocol
	}
	all, err := r.subnets.In(ctx, network, url.Values{"ip_version": {version}})
	if err != nil {
		return "", err
	}
	if len(all) == 1 {
		return all[0].ID, nil
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
		for _, m := range r.service.Near() {
			if slices.ContainsFunc(m.Addresses, func(a netip.Addr) bool { return a.Is6() == ipv6 && s.CIDR.Contains(a) }) {
				return s.ID, nil
			}
		}
	}
	if len(all) == 0 {
		return "", &noSubnet{fmt.Sprintf("network %s of the VIP has no %s subnet", network, family)}
	}
	return "", &noSubnet{fmt.Sprintf("network %s of the VIP has several %s subnets, %s, and no node is in one of them", network, family, strings.Join(ids, ", "))}
}
