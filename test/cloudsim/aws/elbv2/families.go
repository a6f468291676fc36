package elbv2

import (
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// The IP address types of load balancers, and of target groups.
const (
	ipv4      = "ipv4"
	ipv6      = "ipv6"
	dualStack = "dualstack"
)

// SetIPAddressType changes the IP address type of a load balancer.
func (r *Region) SetIPAddressType(arn, kind string) (*LoadBalancer, error) {
	return r.change(arn, func(b *LoadBalancer) error {
		b.IPAddressType = kind
		if err := r.checkAddressType(b); err != nil {
			return err
		}
		for _, l := range r.listeners.Where(func(l *Listener) bool { return l.LoadBalancerARN == arn }) {
			if err := r.checkFamilies(b, l.Protocol, r.groups.Get(l.TargetGroupARN)); err != nil {
				return err
			}
		}
		for _, m := range b.Mappings {
			r.ec2.SetIPv6(m.interfaceID, kind == dualStack)
		}
		return nil
	})
}

// checkAddressType says whether a load balancer can be of its IP address type where it is. Locked.
func (r *Region) checkAddressType(b *LoadBalancer) error {
	if b.IPAddressType != ipv4 && b.IPAddressType != dualStack { // unverified message
		return query.Errorf("ValidationError", "The IP address type '%s' is not supported", b.IPAddressType)
	}
	for _, m := range b.Mappings {
		subnets, err := r.ec2.Subnets([]string{m.SubnetID})
		if err != nil {
			return err
		}
		if b.IPAddressType == dualStack && subnets[0].IPv6CIDR == "" {
			return query.Errorf("ValidationError", "You must specify subnets with an associated IPv6 CIDR block.")
		}
	}
	return nil
}

// checkFamilies says whether a listener of a protocol can forward to a target group by the IP address types of both. UDP needs a prefix
// for source NAT beside, which is not simulated. The messages are unverified.
func (r *Region) checkFamilies(b *LoadBalancer, protocol string, g *TargetGroup) error {
	switch {
	case g.IPAddressType == ipv6 && b.IPAddressType != dualStack:
		return query.Errorf("InvalidConfigurationRequest",
			"The IPv6 target group '%s' can only be used with a load balancer of the IP address type 'dualstack'", g.ARN)
	case b.Type == "network" && b.IPAddressType == dualStack && strings.HasSuffix(protocol, "UDP"):
		return query.Errorf("InvalidConfigurationRequest",
			"A %s listener of a load balancer of the IP address type 'dualstack' needs a prefix for IPv6 source NAT", protocol)
	}
	return nil
}

// lacksPrimaryIPv6 reports whether an instance cannot be a target by IPv6.
func lacksPrimaryIPv6(i *ec2.Instance) bool {
	return !slices.ContainsFunc(i.Interfaces, func(n *ec2.NetworkInterface) bool { return n.PrimaryIPv6 && len(n.IPv6) > 0 })
}
