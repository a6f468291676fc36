package elb

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// Delete implements cloud.LoadBalancers: the rules that let the load balancer in, it, and its own security group, each found by its
// name and tags, also where the others are gone.
func (l *LoadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	ref := spec.LoadBalancerRef
	seen, _, err := l.find(ctx, ref, false)
	if err == nil && seen == nil { // the list may lack it
		seen, _, err = l.find(ctx, ref, true)
	}
	if cloud.KindOf(err) == cloud.KindConflict { // somebody else's stays, with its group and what that is let in to
		return nil
	}
	if err != nil {
		return err
	}
	if seen != nil {
		seen.Tags, err = l.all.tags(ctx, plan.Name(ref), true)
		if cloud.IgnoreNotFound(err) != nil || err == nil && l.judge(ref, seen) == cloud.Foreign { // by now
			return err
		}
	}
	own, err := l.net.FindGroup(ctx, ref, plan.GroupName(ref))
	if err != nil {
		return err
	}
	if err := l.deleteRules(ctx, ref, seen, own); err != nil {
		return err
	}
	if seen != nil {
		if err := l.c.DeleteClassicBalancer(ctx, plan.Name(ref)); err != nil {
			return err
		}
		l.all.forget(plan.Name(ref))
	}
	if own == "" {
		return nil
	}
	return l.net.DeleteGroup(ctx, ref, plan.GroupName(ref))
}

// deleteRules closes the Nodes for the load balancer. What is let in of a group that others have, too, stays.
func (l *LoadBalancers) deleteRules(ctx context.Context, ref cloud.LoadBalancerRef, seen *plan.Observed, own string) error {
	hint := vpc.NodeRules{LoadBalancer: plan.Name(ref)}
	if seen != nil {
		hint = nodeRules(ref, l.ordered(ref, seen.Groups, own), own, nil)
	}
	hint.Former = own
	if hint.SharedSource {
		l.all.goes(hint.LoadBalancer)
		others, err := l.all.others(ctx, hint.LoadBalancer, hint.Source)
		if err != nil {
			return err
		}
		if !others {
			hint.SharedFormer, hint.Source, hint.SharedSource = hint.Source, "", false
		}
	}
	if hint.Source == "" && hint.Former == "" && hint.SharedFormer == "" {
		return nil
	}
	return l.net.DeleteNodeRules(ctx, ref, hint)
}
