package elbv2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

// families decides whether the load balancer is to be reached by IPv6, by the subnets that it is in, or will be in.
func (o *operation) families(ctx context.Context) error {
	b, internal, named := o.m.balancer, o.wish.Internal, o.wish.Subnets
	if !o.wish.IPv6 {
		return nil
	}
	if b != nil {
		internal, named = b.Internal, b.Subnets
	}
	subnets, err := o.network.Subnets(ctx, internal, named)
	if err != nil {
		return err
	}
	var lacking []string
	for _, s := range subnets {
		if !s.ReachedByIPv6(internal) {
			lacking = append(lacking, s.ID)
		}
	}
	warnings, err := o.wish.Settle(b, lacking)
	o.warnings = append(o.warnings, warnings...)
	return err
}

// widen has a load balancer that is there be reached by IPv6, too. Where AWS does not let it, as the identity may not, it is served by IPv4.
func (o *operation) widen(ctx context.Context) error {
	b := o.m.balancer
	if !o.wish.DualStack || b.DualStack {
		return nil
	}
	err := o.c.AddBalancerTags(ctx, []string{b.ARN}, plan.AddressTypeTag())
	if err == nil {
		b.Tags = merged(b.Tags, plan.AddressTypeTag())
		err = o.setDualStack(ctx, true)
	}
	switch cloud.KindOf(err) {
	case cloud.KindDenied, cloud.KindInvalid, cloud.KindUnsupported:
		o.warnings = append(o.warnings, o.wish.GiveUpIPv6(err))
		return nil
	}
	return err
}

// narrow takes IPv6 away from a load balancer that was given it here, and shall not have it any more. Target groups of IPv6 must have
// gone before.
func (o *operation) narrow(ctx context.Context) error {
	b := o.m.balancer
	if !b.DualStack || b.TargetsIPv6() || o.wish.KeepsIPv6(b) {
		return nil
	}
	return o.setDualStack(ctx, false)
}

func (o *operation) setDualStack(ctx context.Context, dual bool) error {
	b := o.m.balancer
	if err := o.c.SetDualStack(ctx, b.ARN, dual); err != nil {
		return err
	}
	b.DualStack = dual
	o.repair("the IP address type was set")
	o.put()
	return nil
}

// reach decides by which IP family Nodes are reached.
func (o *operation) reach(context.Context) error {
	able, without := o.byIPv6()
	six := o.wish.ReachByIPv6(o.spec.LoadBalancerRef, o.m.balancer, len(able), len(o.members))
	if len(without) > 0 && (six || o.wish.DualStack && o.wish.IPv6Only) {
		const most = 10
		o.warnings = append(o.warnings, fmt.Sprintf("%d Nodes get no traffic, as their instances have no primary IPv6 address, by which alone load balancers reach them by IPv6; assign one: %s",
			len(without), strings.Join(without[:min(len(without), most)], ", ")))
	}
	if six {
		o.members = able
	}
	return nil
}

// targetable leaves out Nodes that cannot be targets of the target groups that there are.
func (o *operation) targetable(context.Context) error {
	if o.m.balancer.TargetsIPv6() {
		o.members, _ = o.byIPv6()
	}
	return nil
}

// byIPv6 are the members that can be targets by IPv6, and those that cannot.
func (o *operation) byIPv6() (able, without []string) {
	lacks := func(id string) bool { return !o.found[id].PrimaryIPv6 }
	able = slices.DeleteFunc(slices.Clone(o.members), lacks)
	return able, slices.DeleteFunc(slices.Clone(o.members), func(id string) bool { return !lacks(id) })
}
