package elbv2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	mark "github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// securityGroups finds out which security groups the load balancer shall have, and makes its own where it is to have that.
func (o *operation) securityGroups(ctx context.Context) error {
	b := o.m.balancer
	if !o.wish.Managed {
		return nil
	}
	if b != nil && len(b.SecurityGroups) == 0 {
		o.warnings = append(o.warnings,
			"the load balancer was made without security groups, and AWS cannot give it any; delete the Service and make it anew to have them")
		return nil
	}
	if o.wanted = o.wish.SecurityGroups; len(o.wanted) > 0 {
		return nil
	}
	id, changed, err := o.network.EnsureGroup(ctx, o.spec.LoadBalancerRef,
		vpc.Group{Name: plan.GroupName(o.spec.LoadBalancerRef), Description: plan.GroupDescription, Tags: o.wish.GroupTags}, o.rules())
	if err != nil {
		return err
	}
	o.repair(changed...)
	o.wanted = []string{id}
	return nil
}

// rules are what the load balancer's own security group lets in.
func (o *operation) rules() []vpc.Rule {
	clients := o.wish.Clients
	if o.wish.DualStack {
		clients = slices.Concat(clients, o.wish.Clients6)
	}
	var out []vpc.Rule
	for _, l := range o.wish.Listeners {
		protocol := strings.ToLower(l.Protocol)
		if l.Protocol == plan.TLS {
			protocol = "tcp"
		}
		out = append(out, vpc.Rule{Protocol: protocol, From: l.Port, To: l.Port, CIDRs: clients})
	}
	out = append(out, vpc.Rule{Protocol: "icmp", From: 3, To: 4, CIDRs: o.wish.Clients})
	if o.wish.DualStack { // "packet too big"
		out = append(out, vpc.Rule{Protocol: "icmpv6", From: 2, To: 0, CIDRs: o.wish.Clients6})
	}
	return out
}

// create makes the load balancer where there is none. Target groups that are left over become its, or go.
func (o *operation) create(ctx context.Context) error {
	if o.m.balancer != nil {
		return nil
	}
	subnets, err := o.network.Subnets(ctx, o.wish.Internal, o.wish.Subnets)
	if err != nil {
		return err
	}
	if err := o.wish.CheckAddresses(len(subnets)); err != nil {
		return err
	}
	tags := o.wish.Tags
	if o.wish.DualStack {
		tags = merged(tags, plan.AddressTypeTag())
	}
	tags = mark.Marked(tags, o.spec.Cluster.UID)
	in := &elbv2.CreateLoadBalancerInput{
		Name: &o.wish.Name, Type: types.LoadBalancerTypeEnumNetwork, SecurityGroups: o.wanted, Tags: api.BalancerTags(tags),
	}
	if o.wish.DualStack {
		in.IpAddressType = types.IpAddressTypeDualstack
	}
	if o.wish.Internal {
		in.Scheme = types.LoadBalancerSchemeEnumInternal
	}
	for i, s := range subnets {
		m := types.SubnetMapping{SubnetId: &s.ID}
		if len(o.wish.Allocations) > 0 {
			m.AllocationId = &o.wish.Allocations[i]
		}
		if len(o.wish.PrivateAddresses) > 0 {
			m.PrivateIPv4Address = &o.wish.PrivateAddresses[i]
		}
		in.SubnetMappings = append(in.SubnetMappings, m)
	}
	made, err := o.c.CreateBalancer(ctx, in)
	if err != nil {
		return err
	}
	if len(o.spec.CurrentIngress) > 0 {
		o.repair("the load balancer was gone and was made anew")
	}
	o.made = true
	b := balancerOf(made)
	b.Tags, b.Attributes = tags, plan.NewAttributes()
	o.m.balancer = b
	o.waiter.Forget(o.spec.LoadBalancerRef, b.ARN)
	o.put() // at once: whatever fails from here on, it is not forgotten
	if err := o.completeGroups(ctx, o.m.left, true); err != nil {
		o.memories.Forget(o.spec.UID)
		o.m = nil
		return err
	}
	b.Groups, o.m.left = o.m.left, nil
	return nil
}

// tellSubnets warns where the subnets that the Service names by their tags are others by now than when the load balancer was made.
func (o *operation) tellSubnets(ctx context.Context) error {
	byName := slices.DeleteFunc(slices.Clone(o.wish.Subnets), plan.IsSubnetID)
	if o.made || len(byName) == 0 {
		return nil
	}
	subnets, err := o.network.Subnets(ctx, o.wish.Internal, byName)
	switch {
	case cloud.KindOf(err) == cloud.KindInvalid:
		o.warnings = append(o.warnings, plan.SubnetsStay(o.m.balancer, err.Error()))
	case err != nil:
		return err
	}
	for _, s := range subnets {
		if !slices.Contains(o.m.balancer.Subnets, s.ID) {
			o.warnings = append(o.warnings, plan.SubnetsStay(o.m.balancer, "it is not in "+s.ID+", which is named now"))
		}
	}
	return nil
}

// put enters the load balancer into the lists, without what those lack.
func (o *operation) put() {
	next := *o.m.balancer
	next.Listeners, next.Groups, next.Attributes = nil, nil, nil
	o.store.change(func(all objects) { all.balancers[next.ARN] = &next })
}

// setSecurityGroups replaces those of the load balancer where they are others.
func (o *operation) setSecurityGroups(ctx context.Context) error {
	b := o.m.balancer
	same := len(b.SecurityGroups) == len(o.wanted) &&
		!slices.ContainsFunc(o.wanted, func(id string) bool { return !slices.Contains(b.SecurityGroups, id) })
	if len(o.wanted) == 0 || same {
		return nil
	}
	if err := o.c.SetBalancerGroups(ctx, b.ARN, o.wanted); err != nil {
		return err
	}
	o.repair("security groups were set")
	b.SecurityGroups = o.wanted
	o.put()
	return nil
}

// dropSecurityGroup deletes the load balancer's own security group where others have taken its place.
func (o *operation) dropSecurityGroup(ctx context.Context) error {
	if len(o.wish.SecurityGroups) == 0 || len(o.wanted) == 0 || o.m.wish != nil && slices.Equal(o.m.wish.SecurityGroups, o.wish.SecurityGroups) {
		return nil
	}
	err := o.network.DeleteGroup(ctx, o.spec.LoadBalancerRef, plan.GroupName(o.spec.LoadBalancerRef))
	if cloud.KindOf(err) == cloud.KindRetryAfter {
		o.comeBack("its former security group is in use: %w", err)
		return nil
	}
	return err
}

// createGroup makes a target group.
func (o *operation) createGroup(ctx context.Context, g *plan.TargetGroup) error {
	tags := mark.Marked(o.wish.Tags, o.spec.Cluster.UID)
	in := &elbv2.CreateTargetGroupInput{
		VpcId: &o.m.balancer.VPC, Name: &g.Name, Port: &g.Port, Protocol: types.ProtocolEnum(g.Protocol), TargetType: types.TargetTypeEnumInstance,
		HealthCheckProtocol: types.ProtocolEnum(g.Check.Protocol), HealthCheckPort: &g.Check.Port, HealthCheckIntervalSeconds: &g.Check.Interval,
		HealthyThresholdCount: &g.Check.Healthy, UnhealthyThresholdCount: &g.Check.Unhealthy, Tags: api.BalancerTags(tags),
	}
	if g.IPv6 {
		in.IpAddressType = types.TargetGroupIpAddressTypeEnumIpv6
	}
	if g.Check.Path != "" {
		in.HealthCheckPath = &g.Check.Path
	}
	if g.Check.Timeout != 0 {
		in.HealthCheckTimeoutSeconds = &g.Check.Timeout
	}
	made, err := o.c.CreateTargetGroup(ctx, in)
	if err != nil {
		return err
	}
	g.ARN = aws.ToString(made.TargetGroupArn)
	next := groupOf(made)
	next.Tags, next.Attributes = tags, plan.NewGroupAttributes()
	o.m.balancer.Groups = append(o.m.balancer.Groups, next)
	o.enter(next)
	return nil
}

// modifyGroup sets the health check of a target group, as far as it differs: not everything may be changed of each.
func (o *operation) modifyGroup(ctx context.Context, w *plan.TargetGroup) error {
	have := o.m.balancer.Group(w.ARN)
	in := &elbv2.ModifyTargetGroupInput{TargetGroupArn: &w.ARN}
	if !strings.EqualFold(have.Check.Protocol, w.Check.Protocol) {
		in.HealthCheckProtocol = types.ProtocolEnum(w.Check.Protocol)
	}
	if have.Check.Port != w.Check.Port {
		in.HealthCheckPort = &w.Check.Port
	}
	if w.Check.Path != "" && have.Check.Path != w.Check.Path {
		in.HealthCheckPath = &w.Check.Path
	}
	for _, n := range []struct {
		have, want int32
		to         **int32
	}{
		{have.Check.Interval, w.Check.Interval, &in.HealthCheckIntervalSeconds},
		{have.Check.Timeout, w.Check.Timeout, &in.HealthCheckTimeoutSeconds},
		{have.Check.Healthy, w.Check.Healthy, &in.HealthyThresholdCount},
		{have.Check.Unhealthy, w.Check.Unhealthy, &in.UnhealthyThresholdCount},
	} {
		if n.want != 0 && n.have != n.want {
			*n.to = &n.want
		}
	}
	if err := o.c.ModifyTargetGroup(ctx, in); err != nil {
		return err
	}
	timeout := have.Check.Timeout
	if have.Check = w.Check; w.Check.Timeout == 0 {
		have.Check.Timeout = timeout
	}
	o.enter(have)
	return nil
}
