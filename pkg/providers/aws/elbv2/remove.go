package elbv2

import (
	"cmp"
	"context"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// lookAgain reads lists that are nearly new where those at hand have no load balancer, as it may have been made since.
func (o *operation) lookAgain(ctx context.Context) error {
	if o.m.balancer != nil {
		return nil
	}
	all, err := o.lists(ctx, o.spec.LoadBalancerRef, freshAge)
	if err != nil {
		return err
	}
	b, groups, foreign := find(all, o.spec.LoadBalancerRef)
	o.handed = foreign && b == nil
	next := (&memory{balancer: b, left: groups}).clone()
	if o.m.balancer, o.m.left = next.balancer, next.left; b != nil {
		o.m.balancer.Groups, o.m.left = o.m.left, nil
	}
	return nil
}

// marksOf are the tags of objects by their ARNs as they are now, read together with what others ask for. Those of what is gone are not
// among them.
func (l *LoadBalancers) marksOf(ctx context.Context, arns []string) (map[string]map[string]string, error) {
	if len(arns) == 0 {
		return nil, nil
	}
	found, err := l.marks.Do(ctx, arns, func(ctx context.Context, arns []string) map[string]cloud.Result[map[string]string] {
		all, err := l.c.TagsOf(ctx, arns)
		out := make(map[string]cloud.Result[map[string]string], len(arns))
		for _, arn := range arns {
			if tags, there := all[arn]; there || err != nil {
				out[arn] = cloud.Result[map[string]string]{Value: tags, Err: err}
			}
		}
		return out
	})
	out := map[string]map[string]string{}
	for _, arn := range arns {
		if r, there := found[arn]; there {
			out[arn], err = r.Value, cmp.Or(err, r.Err)
		}
	}
	return out, err
}

// askWhose reads the tags of all that is about to be deleted anew, and leaves alone what is somebody else's by now.
func (o *operation) askWhose(ctx context.Context) error {
	b, groups := o.m.balancer, o.m.left
	var arns []string
	if b != nil {
		arns, groups = append(arns, b.ARN), b.Groups
	}
	for _, g := range groups {
		arns = append(arns, g.ARN)
	}
	tags, err := o.marksOf(ctx, arns)
	if err != nil {
		return err
	}
	if b != nil && tags[b.ARN] != nil && judge(tags[b.ARN], o.spec.LoadBalancerRef, true, b.DNSName) == cloud.Foreign {
		b, o.handed = nil, true
	}
	ours := slices.DeleteFunc(slices.Clone(groups), func(g *plan.TargetGroup) bool {
		now := *g
		now.Tags = tags[g.ARN]
		return tags[g.ARN] != nil && !isOurs(&now, b, o.spec.LoadBalancerRef)
	})
	if b == o.m.balancer && len(ours) == len(groups) {
		return nil
	}
	o.doubt(o.spec.LoadBalancerRef) // what is remembered is not true
	if o.m.balancer, o.m.left = b, ours; b != nil {
		b.Groups, o.m.left = ours, nil
	}
	return nil
}

// deleteBalancer deletes the load balancer with its listeners.
func (o *operation) deleteBalancer(ctx context.Context) error {
	b := o.m.balancer
	if b == nil {
		return nil
	}
	if err := o.c.DeleteBalancer(ctx, b.ARN); err != nil {
		return err
	}
	o.m.left, o.m.balancer = b.Groups, nil
	balancer := b.ARN
	o.store.change(func(all objects) {
		delete(all.balancers, balancer)
		for arn, g := range all.groups { // its target groups are nobody's now
			if len(g.Balancers) == 1 && g.Balancers[0] == balancer {
				next := g.Clone()
				next.Balancers = nil
				all.groups[arn] = next
			}
		}
	})
	return nil
}

// deleteGroups deletes the target groups of the Service, also those that are left over of a load balancer that is gone.
func (o *operation) deleteGroups(ctx context.Context) error {
	for _, g := range o.m.left {
		if err := o.deleteGroup(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// shutOut takes the load balancer's rules out of the security groups of Nodes.
func (o *operation) shutOut(ctx context.Context) error {
	if o.handed {
		return nil
	}
	return o.postpone(o.network.DeleteNodeRules(ctx, o.spec.LoadBalancerRef, vpc.NodeRules{LoadBalancer: o.wish.Name}))
}

// deleteSecurityGroup deletes the load balancer's own security group, whatever the configuration says by now.
func (o *operation) deleteSecurityGroup(ctx context.Context) error {
	if o.handed {
		return nil
	}
	return o.postpone(o.network.DeleteGroup(ctx, o.spec.LoadBalancerRef, plan.GroupName(o.spec.LoadBalancerRef)))
}

// postpone keeps what has to be done later from holding up what can be done now.
func (o *operation) postpone(err error) error {
	if cloud.KindOf(err) != cloud.KindRetryAfter {
		return err
	}
	if o.later == nil {
		o.later = err
	}
	return nil
}
