package account

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

// nameOf is what the load balancer of a Service is called.
func nameOf(ref cloud.LoadBalancerRef) string {
	return ("a" + strings.ReplaceAll(ref.UID, "-", ""))[:32]
}

// Left implements cloudtest.World: what has one of the names that follow from the Service, and rules that say it.
func (w *World) Left(ctx context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	all, err := w.balancers(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := w.groups(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, text := range append(all, groups...) {
		if strings.Contains(text, nameOf(ref)) || strings.Contains(text, plan.GroupName(ref)) {
			out = append(out, text)
		}
	}
	return out, nil
}

// balancers are those of the VPC, with target groups.
func (w *World) balancers(ctx context.Context) ([]string, error) {
	var out []string
	network, err := w.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, err
	}
	for _, b := range network.LoadBalancers {
		if sdk.ToString(b.VpcId) == w.vpc {
			out = append(out, "load balancer "+*b.LoadBalancerArn)
		}
	}
	targets, err := w.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{})
	if err != nil {
		return nil, err
	}
	for _, g := range targets.TargetGroups {
		if sdk.ToString(g.VpcId) == w.vpc {
			out = append(out, "target group "+*g.TargetGroupArn)
		}
	}
	classic, err := w.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, err
	}
	for _, b := range classic.LoadBalancerDescriptions {
		if sdk.ToString(b.VPCId) == w.vpc {
			out = append(out, "classic load balancer "+*b.LoadBalancerName)
		}
	}
	return out, nil
}

// groups are the security groups of the VPC with their rules.
func (w *World) groups(ctx context.Context) ([]string, error) {
	found, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("vpc-id", w.vpc)}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range found.SecurityGroups {
		out = append(out, "security group "+*g.GroupId+" "+*g.GroupName)
		for _, p := range g.IpPermissions {
			rule := fmt.Sprintf("rule of %s: %s %d-%d from", *g.GroupId, *p.IpProtocol, sdk.ToInt32(p.FromPort), sdk.ToInt32(p.ToPort))
			for _, r := range p.IpRanges {
				out = append(out, fmt.Sprintf("%s %s %s", rule, *r.CidrIp, sdk.ToString(r.Description)))
			}
			for _, r := range p.UserIdGroupPairs {
				out = append(out, fmt.Sprintf("%s %s %s", rule, sdk.ToString(r.GroupId), sdk.ToString(r.Description)))
			}
		}
	}
	return out, nil
}

// Everything implements cloudtest.World: all that is in the VPC.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	out, err := w.balancers(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := w.groups(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, groups...)
	found, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("vpc-id", w.vpc)}})
	if err != nil {
		return nil, err
	}
	for _, r := range found.Reservations {
		for _, i := range r.Instances {
			if i.State.Name != types.InstanceStateNameTerminated { // one that is gone is shown for a while
				out = append(out, "instance "+*i.InstanceId)
			}
		}
	}
	routes, err := w.Routes(ctx)
	for _, r := range routes {
		out = append(out, fmt.Sprintf("route %s via %s", r.Destination, r.Hop()))
	}
	return out, err
}

// MakeForeign implements cloudtest.World: rules in the Nodes' security group.
func (w *World) MakeForeign(ctx context.Context, _ cloud.LoadBalancerRef, _ string) (intact, remove func(context.Context) error, err error) {
	rule := []types.IpPermission{{IpProtocol: sdk.String("tcp"), FromPort: sdk.Int32(22), ToPort: sdk.Int32(22),
		IpRanges: []types.IpRange{{CidrIp: sdk.String("203.0.113.0/24"), Description: sdk.String("administrators")}}}}
	_, err = w.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &w.group, IpPermissions: rule})
	intact = func(ctx context.Context) error {
		all, err := w.groups(ctx)
		if err != nil {
			return err
		}
		for _, text := range all {
			if strings.Contains(text, "administrators") {
				return nil
			}
		}
		return fmt.Errorf("the administrators' rule of %s is gone", w.group)
	}
	remove = func(ctx context.Context) error {
		_, err := w.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &w.group, IpPermissions: rule})
		return err
	}
	return intact, remove, err
}
