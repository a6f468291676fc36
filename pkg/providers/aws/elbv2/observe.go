package elbv2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

const (
	typeNetwork  = string(types.LoadBalancerTypeEnumNetwork)
	provisioning = string(types.LoadBalancerStateEnumProvisioning)
	failed       = string(types.LoadBalancerStateEnumFailed)
)

func balancerOf(b *types.LoadBalancer) *plan.Balancer {
	out := &plan.Balancer{
		ARN: aws.ToString(b.LoadBalancerArn), Name: aws.ToString(b.LoadBalancerName), DNSName: aws.ToString(b.DNSName),
		Type: string(b.Type), Created: aws.ToTime(b.CreatedTime), VPC: aws.ToString(b.VpcId), SecurityGroups: b.SecurityGroups,
		Internal: b.Scheme == types.LoadBalancerSchemeEnumInternal, DualStack: b.IpAddressType == types.IpAddressTypeDualstack,
	}
	if b.State != nil {
		out.State = string(b.State.Code)
	}
	for _, z := range b.AvailabilityZones {
		out.Subnets = append(out.Subnets, aws.ToString(z.SubnetId))
	}
	return out
}

func groupOf(g *types.TargetGroup) *plan.TargetGroup {
	return &plan.TargetGroup{
		ARN: aws.ToString(g.TargetGroupArn), Name: aws.ToString(g.TargetGroupName), Protocol: string(g.Protocol), VPC: aws.ToString(g.VpcId),
		Port: aws.ToInt32(g.Port), IPv6: g.IpAddressType == types.TargetGroupIpAddressTypeEnumIpv6, Balancers: g.LoadBalancerArns,
		Check: plan.HealthCheck{
			Protocol: string(g.HealthCheckProtocol), Port: aws.ToString(g.HealthCheckPort), Path: aws.ToString(g.HealthCheckPath),
			Interval: aws.ToInt32(g.HealthCheckIntervalSeconds), Timeout: aws.ToInt32(g.HealthCheckTimeoutSeconds),
			Healthy: aws.ToInt32(g.HealthyThresholdCount), Unhealthy: aws.ToInt32(g.UnhealthyThresholdCount),
		},
	}
}

func listenerOf(l *types.Listener) plan.Listener {
	out := plan.Listener{ARN: aws.ToString(l.ListenerArn), Port: aws.ToInt32(l.Port), Protocol: string(l.Protocol), Policy: aws.ToString(l.SslPolicy)}
	if len(l.Certificates) > 0 {
		out.Certificate = aws.ToString(l.Certificates[0].CertificateArn)
	}
	if len(l.DefaultActions) > 0 {
		out.Group = aws.ToString(l.DefaultActions[0].TargetGroupArn)
		if f := l.DefaultActions[0].ForwardConfig; out.Group == "" && f != nil && len(f.TargetGroups) == 1 {
			out.Group = aws.ToString(f.TargetGroups[0].TargetGroupArn)
		}
	}
	return out
}

// judgeGroup says whose a target group is. Those of former times have no tags: then the Service's own load balancer, which is the
// only one that can use it, speaks for it.
func judgeGroup(g *plan.TargetGroup, ref cloud.LoadBalancerRef, used bool) cloud.Ownership {
	return cloud.Judge(plan.MarkOf(g.Tags, ref), cloud.Evidence{NameFits: plan.IsTargetGroupName(g.Name, ref), Published: used}, ref)
}

// isOurs reports whether a target group is the Service's, whose load balancer is b, nil for none. One that nothing uses must name the
// Service: another one's, or another controller's, may have such a name.
func isOurs(g *plan.TargetGroup, b *plan.Balancer, ref cloud.LoadBalancerRef) bool {
	used := b != nil && slices.Contains(g.Balancers, b.ARN)
	return judgeGroup(g, ref, used) != cloud.Foreign && (used || len(g.Balancers) == 0 && g.Tags[annotations.ServiceTag] == ref.Namespace+"/"+ref.Name)
}

// find returns what there is of a Service, as the lists say: its load balancer, nil where there is none, and its target groups,
// those that are left over as well. foreign is a load balancer that has its name but is somebody else's.
func find(all objects, ref cloud.LoadBalancerRef) (b *plan.Balancer, groups []*plan.TargetGroup, foreign bool) {
	for _, one := range all.balancers {
		if one.Name != plan.Name(ref) {
			continue
		}
		if judge(one.Tags, ref, true, one.DNSName) == cloud.Foreign {
			foreign = true
			continue
		}
		b = one
	}
	for _, g := range all.groups {
		if isOurs(g, b, ref) {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(x, y *plan.TargetGroup) int { return strings.Compare(x.ARN, y.ARN) })
	return b, groups, foreign
}

// judge says whose an object with these tags is.
func judge(tags map[string]string, ref cloud.LoadBalancerRef, nameFits bool, host string) cloud.Ownership {
	published := host != "" && slices.ContainsFunc(ref.CurrentIngress, func(in corev1.LoadBalancerIngress) bool { return strings.EqualFold(in.Hostname, host) })
	return cloud.Judge(plan.MarkOf(tags, ref), cloud.Evidence{NameFits: nameFits, Published: published}, ref)
}

// observe reads all that there is for a Service. What is remembered is taken, unless it is to be verified. groupAttributes says
// that attributes of target groups are needed.
func (l *LoadBalancers) observe(ctx context.Context, spec *cloud.LoadBalancerSpec, groupAttributes bool) (*memory, error) {
	m, ok := l.memories.Get(spec.UID, l.now())
	if ok && (!spec.Verify || l.now().Sub(m.read) < freshAge) {
		return m.clone(), nil
	}
	age := listAge
	if spec.Verify {
		age = freshAge
	}
	read := l.now()
	all, err := l.lists(ctx, spec.LoadBalancerRef, age)
	if err != nil {
		return nil, err
	}
	b, groups, foreign := find(all, spec.LoadBalancerRef)
	next := &memory{balancer: b, left: groups, foreign: foreign, read: read}
	if ok {
		next.wish = m.wish
	}
	if next = next.clone(); b == nil {
		return next, nil
	}
	next.balancer.Groups, next.left = next.left, nil
	return next, l.complete(ctx, next.balancer, groupAttributes)
}

// complete reads what the lists lack: listeners, attributes, targets.
func (l *LoadBalancers) complete(ctx context.Context, b *plan.Balancer, groupAttributes bool) error {
	listeners, err := l.c.Listeners(ctx, b.ARN)
	if err != nil {
		return err
	}
	for i := range listeners {
		b.Listeners = append(b.Listeners, listenerOf(&listeners[i]))
	}
	if b.Attributes, err = l.c.BalancerAttributes(ctx, b.ARN); err != nil {
		return err
	}
	return l.completeGroups(ctx, b.Groups, groupAttributes)
}

// completeGroups reads the targets of target groups and, where they are needed, attributes.
func (l *LoadBalancers) completeGroups(ctx context.Context, groups []*plan.TargetGroup, attributes bool) error {
	for _, g := range groups {
		targets, err := l.c.TargetHealth(ctx, g.ARN)
		if err != nil {
			return err
		}
		for _, t := range targets {
			if t.Target != nil && (t.TargetHealth == nil || t.TargetHealth.Reason != types.TargetHealthReasonEnumDeregistrationInProgress) {
				g.Targets = append(g.Targets, plan.Target{ID: aws.ToString(t.Target.Id), Port: aws.ToInt32(t.Target.Port)})
			}
		}
		if !attributes {
			continue
		}
		if g.Attributes, err = l.c.GroupAttributes(ctx, g.ARN); err != nil {
			return err
		}
	}
	return nil
}
