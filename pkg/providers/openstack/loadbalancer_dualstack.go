package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// A Service of two families gets one load balancer with two VIPs on the same network: one
// of the first family, and an additional VIP of the second. Both lead to the same listeners.
// Pools for TCP have the Nodes' addresses of the first family only: an amphora connects
// by itself, whichever VIP a client came to. Pools for UDP and SCTP have those of both,
// as packets are passed on within their family.

// additionalVIP is an additional VIP as Octavia answers it. Providers that have none
// answer it without an address.
type additionalVIP struct {
	SubnetID string `json:"subnet_id"`
	Address  string `json:"ip_address"`
}

// additionalVIPsMinor is the version 2.x of Octavia's API that has additional VIPs.
const additionalVIPsMinor = 26

// twoFamilies reports whether the Service is of two families.
func (w *lbWishes) twoFamilies() bool { return len(w.spec.IPFamilies) > 1 }

// families are those that are served, the first first: true for IPv6.
func (w *lbWishes) families() []bool {
	if w.second {
		return []bool{w.isIPv6(), !w.isIPv6()}
	}
	return []bool{w.isIPv6()}
}

// onlyFirst warns of why the second family is not served. A Service that requires two is served
// by its first all the same, as it is by other controllers.
func (w *lbWishes) onlyFirst(format string, args ...any) {
	w.second = false
	if w.single {
		return // the first reason is the cause of the others
	}
	w.single = true
	w.warnf("only %s is served, not %s: %s", w.spec.IPFamilies[0], w.spec.IPFamilies[1], fmt.Sprintf(format, args...))
}

// restricted reports whether source ranges keep anybody of one of the families out.
func (w *lbWishes) restricted() bool {
	if len(w.spec.SourceRanges) == 0 {
		return false
	}
	everyone := func(addr netip.Addr) bool { return slices.Contains(w.spec.SourceRanges, netip.PrefixFrom(addr, 0)) }
	return !everyone(netip.IPv4Unspecified()) || !everyone(netip.IPv6Unspecified())
}

const restrictedReason = "Octavia restricts clients of one family only, and there are spec.loadBalancerSourceRanges"

// serveFamilies decides by an existing load balancer which families are served. VIPs are
// fixed at creation.
func (w *lbWishes) serveFamilies(lb *octaviaLB) error {
	w.second = false
	second := lb.secondAddress()
	if second != "" && w.restricted() && lb.Provider != config.ProviderOVN {
		// Octavia would try to make rules of one family for the other and end in ERROR.
		return cloud.Errorf(cloud.KindUnsupported, "load balancer %s has VIPs of both families, and %s: remove the ranges, or make the Service anew", lb.ID, restrictedReason)
	}
	switch {
	case !w.twoFamilies():
	case second != "":
		w.second = true
	case w.restricted():
		w.onlyFirst(restrictedReason)
	case len(lb.AdditionalVIPs) > 0:
		w.onlyFirst("load balancer provider %s gave load balancer %s no second address", lb.Provider, lb.ID)
	default:
		w.onlyFirst("load balancer %s was made with one address, which is fixed at creation; make the Service anew", lb.ID)
	}
	return nil
}

// secondAddress is that of the VIP of the other family than the first VIP's, "" for none.
func (lb *octaviaLB) secondAddress() string {
	first, err := netip.ParseAddr(lb.VIPAddress)
	for _, v := range lb.AdditionalVIPs {
		if a, aErr := netip.ParseAddr(v.Address); err == nil && aErr == nil && a.Is4() != first.Is4() {
			return v.Address
		}
	}
	return ""
}

// addresses are those of the VIPs, where the one of IPv4 is replaced by its floating IP. The
// first is the one to annotate.
func (lb *octaviaLB) addresses(floating string, second bool) []string {
	out := []string{lb.VIPAddress}
	if s := lb.secondAddress(); s != "" && second {
		out = append(out, s)
	}
	for i, a := range out {
		if addr, err := netip.ParseAddr(a); err == nil && addr.Is4() && floating != "" {
			out[i] = floating
		}
	}
	return out
}

// ingressOf is the status of a load balancer with these addresses or host name.
func ingressOf(addresses []string, hostname, suffix string, mode corev1.LoadBalancerIPMode) []corev1.LoadBalancerIngress {
	if hostname != "" {
		return []corev1.LoadBalancerIngress{{Hostname: hostname}}
	}
	var out []corev1.LoadBalancerIngress
	for _, a := range addresses {
		if suffix != "" {
			out = append(out, corev1.LoadBalancerIngress{Hostname: a + "." + suffix})
		} else {
			out = append(out, corev1.LoadBalancerIngress{IP: a, IPMode: &mode})
		}
	}
	return out
}

// vipFamily makes the VIP one of the Service's first family: where a subnet of the other is
// named, as cloud.conf does for all Services, it takes one of the same network. Octavia
// would take an IPv4 subnet of a network.
func (o *lbOperation) vipFamily(ctx context.Context, w *lbWishes, opts *loadbalancers.CreateOpts) error {
	network := opts.VipNetworkID
	switch {
	case opts.VipPortID != "" || opts.VipAddress != "" && opts.VipSubnetID == "":
		return nil
	case opts.VipSubnetID != "":
		cidr, err := o.lb.subnets.CIDR(ctx, opts.VipSubnetID)
		if cloud.IsNotFound(err) || err == nil && cidr.Addr().Is6() == w.isIPv6() {
			return nil // another project's, perhaps: Octavia will tell
		}
		if err == nil && network == "" {
			network, err = o.lb.subnets.NetworkOf(ctx, opts.VipSubnetID)
		}
		if err != nil {
			return err
		}
	case !w.isIPv6():
		return nil
	}
	subnet, err := o.subnetOn(ctx, w, network, w.isIPv6())
	var none *noSubnet
	if errors.As(err, &none) {
		return &cloud.Error{Kind: cloud.KindInvalid, Err: fmt.Errorf("no subnet for the VIP of the Service's first family: %w; set [LoadBalancer] subnet-id in cloud.conf or the annotation %s", err, annSubnetID)}
	}
	opts.VipSubnetID = subnet
	return err
}

// planSecond finds the subnet of a new load balancer's additional VIP, and notes why there
// can be none.
func (o *lbOperation) planSecond(ctx context.Context, w *lbWishes, opts *loadbalancers.CreateOpts) error {
	w.second = false
	if !w.twoFamilies() {
		return nil
	}
	if reason := w.oneVIP(); reason != "" {
		w.onlyFirst("%s", reason)
		return nil
	}
	minor, err := o.octaviaMinor(ctx)
	if err != nil {
		return err
	}
	if minor < additionalVIPsMinor {
		w.onlyFirst("this Octavia speaks version 2.%d of its API, and additional VIPs need 2.%d", minor, additionalVIPsMinor)
		return nil
	}
	network := opts.VipNetworkID
	if network == "" {
		if network, err = o.lb.subnets.NetworkOf(ctx, opts.VipSubnetID); err != nil {
			return err
		}
	}
	subnet, err := o.subnetOn(ctx, w, network, !w.isIPv6())
	var none *noSubnet
	switch {
	case errors.As(err, &none):
		w.onlyFirst("%v", none)
		return nil
	case err != nil:
		return err
	}
	w.second = w.cfg.Provider != config.ProviderOVN // which makes no use of it in some versions
	opts.AdditionalVips = []loadbalancers.AdditionalVip{{SubnetID: subnet}}
	return nil
}

// noSubnet says why a network has no subnet to take.
type noSubnet struct{ reason string }

func (n *noSubnet) Error() string { return n.reason }

// subnetOn is the subnet of a network for VIPs of a family: the only one, or the one that
// the Nodes are in.
func (o *lbOperation) subnetOn(ctx context.Context, w *lbWishes, network string, ipv6 bool) (string, error) {
	version, family := "4", corev1.IPv4Protocol
	if ipv6 {
		version, family = "6", corev1.IPv6Protocol
	}
	all, err := o.lb.subnets.In(ctx, network, url.Values{"ip_version": {version}})
	if err != nil {
		return "", err
	}
	if len(all) == 1 {
		return all[0].ID, nil
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
		for _, m := range w.near() {
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

// octaviaMinor is the newest version 2.x of Octavia's API, read once per process.
func (o *lbOperation) octaviaMinor(ctx context.Context) (int, error) {
	if m := o.lb.minor.Load(); m > 0 {
		return int(m), nil
	}
	var doc struct {
		Versions []struct {
			ID string `json:"id"`
		} `json:"versions"`
	}
	root := strings.TrimSuffix(o.octavia.ResourceBaseURL(), "v2.0/")
	if err := api.GetJSON(ctx, o.octavia, root, &doc); err != nil {
		return 0, api.WrapError("read the versions of Octavia", err)
	}
	minor := 0
	for _, v := range doc.Versions {
		if text, ok := strings.CutPrefix(v.ID, "v2."); ok {
			if n, err := strconv.Atoi(text); err == nil {
				minor = max(minor, n)
			}
		}
	}
	if minor > 0 {
		o.lb.minor.Store(int64(minor))
	}
	return minor, nil
}
