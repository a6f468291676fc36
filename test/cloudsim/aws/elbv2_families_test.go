package aws_test

import (
	"fmt"
	"net/netip"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// ranges gives the balancing's subnets a range of IPv6 each.
func (b *balancing) ranges() {
	b.subnets = nil
	for n, zone := range []string{"a", "b"} {
		subnet := b.region.AddSubnet(sim.Subnet{VPCID: b.vpc, CIDR: fmt.Sprintf("10.0.%d.0/24", 10+n), IPv6CIDR: fmt.Sprintf("2001:db8:0:%d::/64", n), Zone: region + zone})
		b.subnets = append(b.subnets, subnet.ID)
	}
}

func (b *balancing) setType(balancer *types.LoadBalancer, kind types.IpAddressType) error {
	_, err := b.lb.SetIpAddressType(b.t.Context(), &elasticloadbalancingv2.SetIpAddressTypeInput{LoadBalancerArn: balancer.LoadBalancerArn, IpAddressType: kind})
	return err
}

// addresses are how many addresses of IPv6 there are at the load balancers' interfaces, each in its subnet's range.
func (b *balancing) addresses() (n int) {
	b.t.Helper()
	out := must(b.ec2.DescribeNetworkInterfaces(b.t.Context(), &ec2.DescribeNetworkInterfacesInput{}))(b.t)
	for _, i := range out.NetworkInterfaces {
		for _, a := range i.Ipv6Addresses {
			n++
			subnets := must(b.region.Subnets([]string{*i.SubnetId}))(b.t)
			if !netip.MustParsePrefix(subnets[0].IPv6CIDR).Contains(netip.MustParseAddr(*a.Ipv6Address)) {
				b.t.Errorf("%s is not in %s", *a.Ipv6Address, subnets[0].IPv6CIDR)
			}
		}
	}
	return n
}

func TestDualStackLoadBalancers(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	one := must(b.create("one"))(t)
	wantError(t, b.setType(one, types.IpAddressTypeDualstack), "ValidationError", "You must specify subnets with an associated IPv6 CIDR block.")
	wantError(t, b.setType(one, "ipv6"), "ValidationError", "")
	b.ranges()
	two := must(b.create("two"))(t)
	if err := b.setType(two, types.IpAddressTypeDualstack); err != nil || b.addresses() != 2 {
		t.Errorf("%v, %d addresses", err, b.addresses())
	}

	six := must(b.lb.CreateTargetGroup(t.Context(), &elasticloadbalancingv2.CreateTargetGroupInput{
		Name: sdk.String("six"), Protocol: types.ProtocolEnumTcp, Port: sdk.Int32(30080), VpcId: &b.vpc, IpAddressType: types.TargetGroupIpAddressTypeEnumIpv6,
	}))(t).TargetGroups[0]
	_, err := b.listen(one, 80, &six)
	wantError(t, err, "InvalidConfigurationRequest", "")
	must(b.listen(two, 80, &six))(t)
	wantError(t, b.setType(two, types.IpAddressTypeIpv4), "InvalidConfigurationRequest", "")
	register := func(primary bool) error {
		i := b.region.AddInstance(sim.Instance{SubnetID: b.subnets[0], Interfaces: []*sim.NetworkInterface{{IPv6: []string{"2001:db8::1"}, PrimaryIPv6: primary}}})
		_, err := b.lb.RegisterTargets(t.Context(), &elasticloadbalancingv2.RegisterTargetsInput{TargetGroupArn: six.TargetGroupArn,
			Targets: []types.TargetDescription{{Id: &i.ID}}})
		return err
	}
	wantError(t, register(false), "InvalidTarget", "")
	if err := register(true); err != nil {
		t.Error(err)
	}

	udp := must(b.lb.CreateTargetGroup(t.Context(), &elasticloadbalancingv2.CreateTargetGroupInput{
		Name: sdk.String("udp"), Protocol: types.ProtocolEnumUdp, Port: sdk.Int32(30053), VpcId: &b.vpc,
	}))(t).TargetGroups[0]
	_, err = b.lb.CreateListener(t.Context(), &elasticloadbalancingv2.CreateListenerInput{
		LoadBalancerArn: two.LoadBalancerArn, Port: sdk.Int32(53), Protocol: types.ProtocolEnumUdp,
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: udp.TargetGroupArn}},
	})
	wantError(t, err, "InvalidConfigurationRequest", "")
}

func TestDualStackFromTheStart(t *testing.T) {
	b := newBalancing(t, aws.Options{})
	create := func(name string) (*elasticloadbalancingv2.CreateLoadBalancerOutput, error) {
		return b.lb.CreateLoadBalancer(t.Context(), &elasticloadbalancingv2.CreateLoadBalancerInput{
			Name: &name, Type: types.LoadBalancerTypeEnumNetwork, Subnets: b.subnets, IpAddressType: types.IpAddressTypeDualstack,
		})
	}
	_, err := create("one")
	wantError(t, err, "ValidationError", "")
	b.ranges()
	made := must(create("one"))(t).LoadBalancers[0]
	if made.IpAddressType != types.IpAddressTypeDualstack || b.addresses() != 2 {
		t.Errorf("%s, %d addresses", made.IpAddressType, b.addresses())
	}
	if err := b.setType(&made, types.IpAddressTypeIpv4); err != nil || b.addresses() != 0 {
		t.Errorf("%v, %d addresses", err, b.addresses())
	}
}
