package account

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	network "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

// certificateVariable names the environment's variable with the ARN of a certificate, for what ends TLS.
const certificateVariable = "ISTHMUS_AWS_CERTIFICATE"

// Settings implements cloudtest.World.
func (w *World) Settings(ctx context.Context, f cloudtest.Feature) (cloud.Settings, error) {
	if f == cloudtest.LoadBalancerTLS && os.Getenv(certificateVariable) == "" {
		return nil, cloudtest.ErrNoAnnotation
	}
	settings, err := w.Kind.Settings(ctx, f)
	if f == cloudtest.LoadBalancerTLS {
		maps.Copy(settings, aws.Certificate(os.Getenv(certificateVariable)))
	}
	return settings, err
}

// find is the load balancer of a name, of either kind; both are nil where there is none.
func (w *World) find(ctx context.Context, id string) (*network.LoadBalancer, *classic.LoadBalancerDescription, error) {
	all, err := w.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, nil, err
	}
	for _, b := range all.LoadBalancers {
		if sdk.ToString(b.DNSName) == id {
			return &b, nil, nil
		}
	}
	old, err := w.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, nil, err
	}
	for _, b := range old.LoadBalancerDescriptions {
		if sdk.ToString(b.DNSName) == id {
			return nil, &b, nil
		}
	}
	return nil, nil, nil
}

// DeleteLoadBalancer implements cloudtest.World. Target groups are no part of it.
func (w *World) DeleteLoadBalancer(ctx context.Context, id string) error {
	n, c, err := w.find(ctx, id)
	switch {
	case n != nil:
		_, err = w.elbv2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: n.LoadBalancerArn})
	case c != nil:
		_, err = w.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: c.LoadBalancerName})
	}
	return err
}

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(ctx context.Context, id string) (*cloudtest.LoadBalancer, error) {
	n, c, err := w.find(ctx, id)
	switch {
	case n != nil:
		return w.readNetwork(ctx, n)
	case c != nil:
		return w.readClassic(ctx, c)
	}
	return nil, err
}

// ReserveAddress implements cloudtest.World: an Elastic IP, and the one subnet that it is for.
func (w *World) ReserveAddress(ctx context.Context) (cloudtest.Address, error) {
	eip, err := w.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: "vpc", TagSpecifications: w.tags("elastic-ip", w.cluster)})
	if err != nil {
		return cloudtest.Address{}, err
	}
	ip, err := netip.ParseAddr(*eip.PublicIp)
	return cloudtest.Address{
		IP: ip, Settings: aws.Static(*eip.AllocationId, *w.subnets[0].SubnetId),
		Release: func(ctx context.Context) error {
			_, err := w.ec2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: eip.AllocationId})
			return err
		},
	}, err
}

// addresses adds those of a load balancer's network interfaces, which have its name in their descriptions.
func (w *World) addresses(ctx context.Context, out *cloudtest.LoadBalancer, name string) error {
	found, err := w.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{})
	if err != nil {
		return err
	}
	for _, n := range found.NetworkInterfaces {
		if sdk.ToString(n.Description) != "ELB "+name {
			continue
		}
		if a, err := netip.ParseAddr(sdk.ToString(n.PrivateIpAddress)); err == nil {
			out.Private = append(out.Private, a)
		}
		for _, six := range n.Ipv6Addresses {
			if a, err := netip.ParseAddr(sdk.ToString(six.Ipv6Address)); err == nil {
				out.Private = append(out.Private, a)
			}
		}
		if n.Association == nil {
			continue
		}
		if a, err := netip.ParseAddr(sdk.ToString(n.Association.PublicIp)); err == nil {
			out.Public = append(out.Public, a)
		}
	}
	return nil
}

func (w *World) readNetwork(ctx context.Context, b *network.LoadBalancer) (*cloudtest.LoadBalancer, error) {
	out := &cloudtest.LoadBalancer{ID: *b.DNSName, Hostname: *b.DNSName}
	_, name, _ := strings.Cut(*b.LoadBalancerArn, ":loadbalancer/")
	if err := w.addresses(ctx, out, name); err != nil {
		return nil, err
	}
	listeners, err := w.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: b.LoadBalancerArn})
	if err != nil {
		return nil, err
	}
	for _, l := range listeners.Listeners {
		v := cloudtest.Listener{Port: *l.Port, Protocol: "TCP", TLS: l.Protocol == "TLS"}
		if l.Protocol == "UDP" {
			v.Protocol = "UDP"
		}
		if err := w.readTargets(ctx, &v, sdk.ToString(l.DefaultActions[0].TargetGroupArn)); err != nil {
			return nil, err
		}
		out.Listeners = append(out.Listeners, v)
	}
	return out, nil
}

func (w *World) readTargets(ctx context.Context, v *cloudtest.Listener, arn string) error {
	groups, err := w.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{TargetGroupArns: []string{arn}})
	if err != nil {
		return err
	}
	attributes, err := w.elbv2.DescribeTargetGroupAttributes(ctx, &elbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})
	if err != nil {
		return err
	}
	health, err := w.elbv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: &arn})
	if err != nil {
		return err
	}
	for _, a := range attributes.Attributes {
		switch on := sdk.ToString(a.Value) == "true"; {
		case on && *a.Key == "stickiness.enabled":
			v.Affinity = true
		case on && *a.Key == "proxy_protocol_v2.enabled":
			v.Proxy = 2
		}
	}
	g := groups.TargetGroups[0]
	for _, h := range health.TargetHealthDescriptions {
		if h.TargetHealth != nil && h.TargetHealth.State == network.TargetHealthStateEnumDraining {
			continue
		}
		m, err := w.member(ctx, *h.Target.Id, g.IpAddressType == network.TargetGroupIpAddressTypeEnumIpv6, sdk.ToInt32(h.Target.Port))
		if err != nil {
			return err
		}
		v.Members = append(v.Members, m)
		if g.HealthCheckProtocol == "HTTP" {
			v.CheckPath, v.CheckPort = *g.HealthCheckPath, checked(sdk.ToString(g.HealthCheckPort), sdk.ToInt32(h.Target.Port))
		}
	}
	slices.SortFunc(v.Members, netip.AddrPort.Compare)
	if len(v.Members) > 0 {
		v.Clients, err = w.clients(ctx, w.group, strings.ToLower(string(v.Protocol)), int32(v.Members[0].Port()))
	}
	return err
}

// checked is the port that is checked.
func checked(text string, traffic int32) int32 {
	var n int32
	if _, err := fmt.Sscan(text, &n); err != nil {
		return traffic
	}
	return n
}

func (w *World) member(ctx context.Context, id string, six bool, port int32) (netip.AddrPort, error) {
	i, err := w.instance(ctx, id)
	if err != nil {
		return netip.AddrPort{}, err
	}
	text := i.PrivateIpAddress
	if six {
		text = i.Ipv6Address
	}
	a, err := netip.ParseAddr(sdk.ToString(text))
	return netip.AddrPortFrom(a, uint16(port)), err //nolint:gosec // a port
}

// clients are the addresses that a security group lets in to a port, but for the VPC's own; none are all.
func (w *World) clients(ctx context.Context, group, protocol string, port int32) ([]netip.Prefix, error) {
	found, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{group}})
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, p := range found.SecurityGroups[0].IpPermissions {
		if sdk.ToString(p.IpProtocol) != protocol || sdk.ToInt32(p.FromPort) > port || port > sdk.ToInt32(p.ToPort) {
			continue
		}
		for _, r := range p.IpRanges {
			prefix, err := netip.ParsePrefix(*r.CidrIp)
			switch {
			case err != nil:
				return nil, err
			case prefix.Bits() == 0:
				return nil, nil
			case !inside.Overlaps(prefix):
				out = append(out, prefix)
			}
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return out, nil
}

func (w *World) readClassic(ctx context.Context, b *classic.LoadBalancerDescription) (*cloudtest.LoadBalancer, error) {
	out := &cloudtest.LoadBalancer{ID: *b.DNSName, Hostname: *b.DNSName}
	if err := w.addresses(ctx, out, *b.LoadBalancerName); err != nil {
		return nil, err
	}
	for _, d := range b.ListenerDescriptions {
		l := d.Listener
		protocol := strings.ToUpper(*l.Protocol)
		http, tls := strings.HasPrefix(protocol, "HTTP"), protocol == "HTTPS" || protocol == "SSL"
		v := cloudtest.Listener{Port: l.LoadBalancerPort, Protocol: "TCP", HTTP: http, ForwardedFor: http && !tls, TLS: tls}
		for _, backend := range b.BackendServerDescriptions {
			if sdk.ToInt32(backend.InstancePort) == sdk.ToInt32(l.InstancePort) && len(backend.PolicyNames) > 0 {
				v.Proxy = 1
			}
		}
		if kind, rest, _ := strings.Cut(sdk.ToString(b.HealthCheck.Target), ":"); strings.HasPrefix(kind, "HTTP") {
			port, path, _ := strings.Cut(rest, "/")
			v.CheckPath, v.CheckPort = "/"+path, checked(port, 0)
		}
		for _, i := range b.Instances {
			m, err := w.member(ctx, *i.InstanceId, false, sdk.ToInt32(l.InstancePort))
			if err != nil {
				return nil, err
			}
			v.Members = append(v.Members, m)
		}
		slices.SortFunc(v.Members, netip.AddrPort.Compare)
		var err error
		if v.Clients, err = w.clients(ctx, b.SecurityGroups[0], "tcp", v.Port); err != nil {
			return nil, err
		}
		out.Listeners = append(out.Listeners, v)
	}
	return out, nil
}
