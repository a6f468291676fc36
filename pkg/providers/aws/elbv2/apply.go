package elbv2

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
)

// change makes a change, and keeps what is remembered in line.
func (o *operation) change(ctx context.Context, c plan.Change) error {
	b := o.m.balancer
	switch c.Op {
	case plan.CreateGroup:
		return o.createGroup(ctx, c.Group)
	case plan.ModifyGroup:
		return o.modifyGroup(ctx, c.Group)
	case plan.SetGroupAttributes:
		if err := o.c.SetGroupAttributes(ctx, c.Group.ARN, c.Attributes); err != nil {
			return err
		}
		g := b.Group(c.Group.ARN)
		g.Attributes = merged(g.Attributes, c.Attributes)
	case plan.Register:
		return o.register(ctx, c.Group.ARN, c.Targets)
	case plan.Deregister:
		return o.deregister(ctx, c.Group.ARN, c.Targets)
	case plan.CreateListener:
		return o.createListener(ctx, c.Listener, c.Group.ARN)
	case plan.ModifyListener:
		return o.modifyListener(ctx, c.Listener, c.Group.ARN)
	case plan.DeleteListener:
		if err := o.c.DeleteListener(ctx, c.Listener.ARN); err != nil {
			return err
		}
		b.Listeners = slices.DeleteFunc(b.Listeners, func(l plan.Listener) bool { return l.ARN == c.Listener.ARN })
		o.use(c.Listener.Group)
	case plan.DeleteGroup:
		return o.deleteUnused(ctx, c.Group)
	case plan.SetAttributes:
		if err := o.c.SetBalancerAttributes(ctx, b.ARN, c.Attributes); err != nil {
			return err
		}
		b.Attributes = merged(b.Attributes, c.Attributes)
	}
	return nil
}

func merged(have, set map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, set)
	return out
}

// enter enters a target group into the lists, without what those lack.
func (o *operation) enter(g *plan.TargetGroup) {
	next := g.Clone()
	next.Targets, next.Attributes = nil, nil
	o.store.change(func(all objects) { all.groups[g.ARN] = next })
}

// use notes of a target group whether a listener sends to it.
func (o *operation) use(arn string) {
	b := o.m.balancer
	g := b.Group(arn)
	if g == nil {
		return
	}
	g.Balancers = nil
	if slices.ContainsFunc(b.Listeners, func(l plan.Listener) bool { return l.Group == arn }) {
		g.Balancers = []string{b.ARN}
	}
	o.enter(g)
}

func (o *operation) createListener(ctx context.Context, l plan.Listener, group string) error {
	in := &elbv2.CreateListenerInput{
		LoadBalancerArn: &o.m.balancer.ARN, Port: &l.Port, Protocol: types.ProtocolEnum(l.Protocol), DefaultActions: forward(group),
		Certificates: certificates(l), Tags: api.BalancerTags(o.wish.Tags),
	}
	if l.Policy != "" {
		in.SslPolicy = &l.Policy
	}
	made, err := o.c.CreateListener(ctx, in)
	if err != nil {
		return err
	}
	o.m.balancer.Listeners = append(o.m.balancer.Listeners, listenerOf(made))
	o.use(group)
	return nil
}

func (o *operation) modifyListener(ctx context.Context, l plan.Listener, group string) error {
	in := &elbv2.ModifyListenerInput{
		ListenerArn: &l.ARN, Port: &l.Port, Protocol: types.ProtocolEnum(l.Protocol), DefaultActions: forward(group), Certificates: certificates(l),
	}
	if l.Policy != "" {
		in.SslPolicy = &l.Policy
	}
	made, err := o.c.ModifyListener(ctx, in)
	if err != nil {
		return err
	}
	for i := range o.m.balancer.Listeners {
		if have := &o.m.balancer.Listeners[i]; have.ARN == l.ARN {
			before := have.Group
			*have = listenerOf(made)
			o.use(before)
		}
	}
	o.use(group)
	return nil
}

func forward(group string) []types.Action {
	return []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: &group}}
}

func certificates(l plan.Listener) []types.Certificate {
	if l.Certificate == "" {
		return nil
	}
	return []types.Certificate{{CertificateArn: &l.Certificate}}
}

// register adds targets to a target group. Those that do not run, or that AWS refuses, are left out until they do: one of them
// must not keep out the others.
func (o *operation) register(ctx context.Context, group string, targets []plan.Target) error {
	var ids []string
	for _, t := range targets {
		if s := o.found[t.ID].State; s != "running" && s != "pending" {
			o.comeBack("instance %s is a Node's, but %s: it gets no traffic until it runs", t.ID, s)
			continue
		}
		ids = append(ids, t.ID)
	}
	g := o.m.balancer.Group(group)
	for len(ids) > 0 {
		done, err := o.c.RegisterTargets(ctx, group, ids)
		for _, id := range ids[:done] {
			g.Targets = append(g.Targets, plan.Target{ID: id, Port: g.Port})
		}
		if ids = ids[done:]; err == nil {
			break
		}
		left := providerid.Without(ids, err)
		of := strings.Contains(err.Error(), "InvalidTarget") || strings.Contains(err.Error(), "TooManyRegistrationsForTargetId")
		if !of || len(left) == len(ids) {
			return err
		}
		o.network.ForgetInstances(slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(left, id) })...)
		o.comeBack("some Nodes get no traffic, as AWS does not take their instances: %w", err)
		ids = left
	}
	return nil
}

// leaves reports whether targets of the group are still to go, which makes room where there are as many as AWS allows.
func (o *operation) leaves(group string) bool {
	return slices.ContainsFunc(o.changes, func(c plan.Change) bool { return c.Op == plan.Deregister && c.Group.ARN == group })
}

func (o *operation) deregister(ctx context.Context, group string, targets []plan.Target) error {
	var all []types.TargetDescription
	for _, t := range targets {
		all = append(all, types.TargetDescription{Id: aws.String(t.ID), Port: aws.Int32(t.Port)})
	}
	done, err := o.c.DeregisterTargets(ctx, group, all)
	g := o.m.balancer.Group(group)
	g.Targets = slices.DeleteFunc(g.Targets, func(t plan.Target) bool { return slices.Contains(targets[:done], t) })
	return err
}

// deleteUnused deletes a target group that the load balancer does not use, unless it is somebody else's by now.
func (o *operation) deleteUnused(ctx context.Context, g *plan.TargetGroup) error {
	tags, err := o.marksOf(ctx, []string{g.ARN})
	if err != nil {
		return err
	}
	now := *g
	if now.Tags = tags[g.ARN]; now.Tags == nil || judgeGroup(&now, o.spec.LoadBalancerRef, true) != cloud.Foreign {
		return o.deleteGroup(ctx, g)
	}
	b := o.m.balancer
	b.Groups = slices.DeleteFunc(slices.Clone(b.Groups), func(x *plan.TargetGroup) bool { return x.ARN == g.ARN })
	o.doubt(o.spec.LoadBalancerRef)
	return nil
}

// deleteGroup deletes a target group. AWS takes it for used some time after its listener has gone.
func (o *operation) deleteGroup(ctx context.Context, g *plan.TargetGroup) error {
	err := o.c.DeleteTargetGroup(ctx, g.ARN)
	if cloud.IsStale(err) {
		o.comeBack("it is still in use: %w", err)
		return nil
	}
	if err != nil {
		return err
	}
	if b := o.m.balancer; b != nil {
		b.Groups = slices.DeleteFunc(slices.Clone(b.Groups), func(x *plan.TargetGroup) bool { return x.ARN == g.ARN })
	}
	o.store.change(func(all objects) { delete(all.groups, g.ARN) })
	return nil
}
