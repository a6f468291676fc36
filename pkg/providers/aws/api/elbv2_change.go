package api

import (
	"context"
	"errors"
	"maps"
	"slices"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// BalancerTags are tags as requests of Elastic Load Balancing v2 have them, sorted.
func BalancerTags(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		out = append(out, types.Tag{Key: &key, Value: &value})
	}
	return out
}

// CreateBalancer makes a load balancer, or returns the one that is there with the same settings.
func (c *Client) CreateBalancer(ctx context.Context, in *elbv2.CreateLoadBalancerInput) (*types.LoadBalancer, error) {
	const op = "create load balancer"
	out, _, err := call(ctx, c, op, *in.Name, func(ctx context.Context, p *place) (*elbv2.CreateLoadBalancerOutput, error) {
		return p.elbv2.CreateLoadBalancer(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	return only(op+" "+*in.Name, out.LoadBalancers)
}

// CreateTargetGroup makes a target group, or returns the one that is there with the same settings.
func (c *Client) CreateTargetGroup(ctx context.Context, in *elbv2.CreateTargetGroupInput) (*types.TargetGroup, error) {
	const op = "create target group"
	out, _, err := call(ctx, c, op, *in.Name, func(ctx context.Context, p *place) (*elbv2.CreateTargetGroupOutput, error) {
		return p.elbv2.CreateTargetGroup(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	return only(op+" "+*in.Name, out.TargetGroups)
}

// CreateListener makes a listener, or returns the one that is there with the same settings.
func (c *Client) CreateListener(ctx context.Context, in *elbv2.CreateListenerInput) (*types.Listener, error) {
	const op = "create listener of"
	out, _, err := call(ctx, c, op, *in.LoadBalancerArn, func(ctx context.Context, p *place) (*elbv2.CreateListenerOutput, error) {
		return p.elbv2.CreateListener(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	return only(op+" "+*in.LoadBalancerArn, out.Listeners)
}

// only is the one object that an answer must have.
func only[T any](op string, all []T) (*T, error) {
	if len(all) != 1 {
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer does not have it")}
	}
	return &all[0], nil
}

// do is call for what answers nothing that anybody needs.
func do[Out any](ctx context.Context, c *Client, op, object string, send func(context.Context, *place) (Out, error)) error {
	_, _, err := call(ctx, c, op, object, send)
	return err
}

// ModifyListener changes a listener; what is nil stays.
func (c *Client) ModifyListener(ctx context.Context, in *elbv2.ModifyListenerInput) (*types.Listener, error) {
	const op = "change listener"
	out, _, err := call(ctx, c, op, *in.ListenerArn, func(ctx context.Context, p *place) (*elbv2.ModifyListenerOutput, error) {
		return p.elbv2.ModifyListener(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	return only(op+" "+*in.ListenerArn, out.Listeners)
}

// ModifyTargetGroup changes the health check of a target group; what is nil stays.
func (c *Client) ModifyTargetGroup(ctx context.Context, in *elbv2.ModifyTargetGroupInput) error {
	return do(ctx, c, "change target group", *in.TargetGroupArn,
		func(ctx context.Context, p *place) (*elbv2.ModifyTargetGroupOutput, error) {
			return p.elbv2.ModifyTargetGroup(ctx, in)
		})
}

// SetBalancerAttributes changes attributes of a load balancer; others stay.
func (c *Client) SetBalancerAttributes(ctx context.Context, balancer string, set map[string]string) error {
	in := &elbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &balancer}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		in.Attributes = append(in.Attributes, types.LoadBalancerAttribute{Key: &key, Value: &value})
	}
	return do(ctx, c, "set attributes of", balancer, func(ctx context.Context, p *place) (*elbv2.ModifyLoadBalancerAttributesOutput, error) {
		return p.elbv2.ModifyLoadBalancerAttributes(ctx, in)
	})
}

// SetGroupAttributes changes attributes of a target group; others stay.
func (c *Client) SetGroupAttributes(ctx context.Context, group string, set map[string]string) error {
	in := &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		in.Attributes = append(in.Attributes, types.TargetGroupAttribute{Key: &key, Value: &value})
	}
	return do(ctx, c, "set attributes of", group, func(ctx context.Context, p *place) (*elbv2.ModifyTargetGroupAttributesOutput, error) {
		return p.elbv2.ModifyTargetGroupAttributes(ctx, in)
	})
}

// SetDualStack has a load balancer be reached by IPv6 beside IPv4, or by IPv4 alone.
func (c *Client) SetDualStack(ctx context.Context, balancer string, dual bool) error {
	kind := types.IpAddressTypeIpv4
	if dual {
		kind = types.IpAddressTypeDualstack
	}
	return do(ctx, c, "set IP address type of", balancer, func(ctx context.Context, p *place) (*elbv2.SetIpAddressTypeOutput, error) {
		return p.elbv2.SetIpAddressType(ctx, &elbv2.SetIpAddressTypeInput{LoadBalancerArn: &balancer, IpAddressType: kind})
	})
}

// SetBalancerGroups replaces the security groups of a load balancer, which must have had some when it was made.
func (c *Client) SetBalancerGroups(ctx context.Context, balancer string, groups []string) error {
	return do(ctx, c, "set security groups of", balancer, func(ctx context.Context, p *place) (*elbv2.SetSecurityGroupsOutput, error) {
		return p.elbv2.SetSecurityGroups(ctx, &elbv2.SetSecurityGroupsInput{LoadBalancerArn: &balancer, SecurityGroups: groups})
	})
}

// AddBalancerTags adds tags to load balancers, target groups and listeners; tags of other keys stay.
func (c *Client) AddBalancerTags(ctx context.Context, arns []string, tags map[string]string) error {
	for some := range slices.Chunk(arns, maxTagged) {
		err := do(ctx, c, "tag", some[0], func(ctx context.Context, p *place) (*elbv2.AddTagsOutput, error) {
			return p.elbv2.AddTags(ctx, &elbv2.AddTagsInput{ResourceArns: some, Tags: BalancerTags(tags)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RegisterTargets adds instances to a target group, at the group's port. Of each request it is all or none; done is how many, from the
// first on, have been added where a later request has failed.
func (c *Client) RegisterTargets(ctx context.Context, group string, instances []string) (done int, err error) {
	for some := range slices.Chunk(instances, maxTargets) {
		in := &elbv2.RegisterTargetsInput{TargetGroupArn: &group}
		for _, id := range some {
			in.Targets = append(in.Targets, types.TargetDescription{Id: &id})
		}
		err := do(ctx, c, "register targets of", group, func(ctx context.Context, p *place) (*elbv2.RegisterTargetsOutput, error) {
			return p.elbv2.RegisterTargets(ctx, in)
		})
		if err != nil {
			return done, err
		}
		done += len(some)
	}
	return done, nil
}

// DeregisterTargets takes targets out of a target group, each at its port; one without a port is at the group's. done is as
// of RegisterTargets.
func (c *Client) DeregisterTargets(ctx context.Context, group string, targets []types.TargetDescription) (done int, err error) {
	for some := range slices.Chunk(targets, maxTargets) {
		err := do(ctx, c, "deregister targets of", group, func(ctx context.Context, p *place) (*elbv2.DeregisterTargetsOutput, error) {
			return p.elbv2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: &group, Targets: some})
		})
		if err != nil {
			return done, err
		}
		done += len(some)
	}
	return done, nil
}

// DeleteBalancer deletes a load balancer with its listeners. One that is gone is no error.
func (c *Client) DeleteBalancer(ctx context.Context, balancer string) error {
	return cloud.IgnoreNotFound(do(ctx, c, "delete load balancer", balancer,
		func(ctx context.Context, p *place) (*elbv2.DeleteLoadBalancerOutput, error) {
			return p.elbv2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: &balancer})
		}))
}

// DeleteListener deletes a listener. One that is gone is no error.
func (c *Client) DeleteListener(ctx context.Context, listener string) error {
	return cloud.IgnoreNotFound(do(ctx, c, "delete listener", listener,
		func(ctx context.Context, p *place) (*elbv2.DeleteListenerOutput, error) {
			return p.elbv2.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: &listener})
		}))
}

// DeleteTargetGroup deletes a target group. One that is gone is no error. One that is in use is KindStale, and so it is for some
// time after its listener is gone.
func (c *Client) DeleteTargetGroup(ctx context.Context, group string) error {
	return cloud.IgnoreNotFound(do(ctx, c, "delete target group", group,
		func(ctx context.Context, p *place) (*elbv2.DeleteTargetGroupOutput, error) {
			return p.elbv2.DeleteTargetGroup(ctx, &elbv2.DeleteTargetGroupInput{TargetGroupArn: &group})
		}))
}
