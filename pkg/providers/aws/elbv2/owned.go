package elbv2

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// What Owned lists.
const (
	BalancerKind = "network load balancer"
	GroupKind    = "target group"
)

// ownName is the form of the names that Services' load balancers have: others may have the tags by mistake.
var ownName = regexp.MustCompile(`^a[0-9a-f]{1,31}$`)

// Owned are the network load balancers that a cluster has made in a VPC, and the target groups that none has: those of a load balancer
// go with it. inUse are the security groups that network load balancers have.
func (l *LoadBalancers) Owned(ctx context.Context, cluster cloud.Cluster, where string) (out []cloud.Owned, inUse []string, err error) {
	all, err := l.store.get(ctx, l.now())
	if err != nil {
		return nil, nil, err
	}
	for _, b := range all.balancers {
		if o := ownedBalancer(b, cluster); o != nil && b.VPC == where {
			out = append(out, *o)
		}
		inUse = append(inUse, b.SecurityGroups...)
	}
	for _, g := range all.groups {
		if o := ownedGroup(g, cluster); o != nil && g.VPC == where {
			out = append(out, *o)
		}
	}
	return out, inUse, nil
}

// ownedBalancer is what a load balancer is to a cluster, nil where that has not made it.
func ownedBalancer(b *plan.Balancer, cluster cloud.Cluster) *cloud.Owned {
	m, ok := markOf(b.Tags, cluster)
	if !ok || m.Service == "" || !ownName.MatchString(b.Name) {
		return nil
	}
	return &cloud.Owned{Kind: BalancerKind, ID: b.ARN, Name: b.Name, State: b.State, Mark: m, Created: b.Created, Addresses: []string{b.DNSName}}
}

// ownedGroup is what a target group that no load balancer has is to a cluster. When it was made AWS does not tell.
func ownedGroup(g *plan.TargetGroup, cluster cloud.Cluster) *cloud.Owned {
	m, ok := markOf(g.Tags, cluster)
	if !ok || m.Service == "" || len(g.Balancers) > 0 {
		return nil
	}
	return &cloud.Owned{Kind: GroupKind, ID: g.ARN, Name: g.Name, Mark: m}
}

func markOf(all map[string]string, cluster cloud.Cluster) (cloud.Mark, bool) {
	proof, ok := tags.Made(api.Tags(all), cluster.ID, cluster.UID)
	return cloud.Mark{ClusterUID: proof, ClusterID: cluster.ID, Service: all[annotations.ServiceTag]}, ok
}

// Remove deletes a load balancer or target group that Owned has listed, as Delete does for its Service.
func (l *LoadBalancers) Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	ref, err := l.refOf(ctx, cluster, o)
	if err != nil {
		return err
	}
	spec := &cloud.LoadBalancerSpec{LoadBalancerRef: ref}
	r := &operation{LoadBalancers: l, spec: spec, wish: plan.Resolve(l.cfg, spec)}
	look := func(ctx context.Context) error { return r.lookFor(ctx, o) }
	if o.Kind == GroupKind {
		return r.run(ctx, look, r.deleteGroups, r.settle)
	}
	return r.run(ctx, look, r.close, r.deleteBalancer, r.deleteGroups, r.deleteSecurityGroup, r.settle)
}

// close takes the load balancer's rules out of the security groups of Nodes. It comes first: nothing tells of them once the load balancer
// is gone, while target groups and security groups are listed by themselves.
func (o *operation) close(ctx context.Context) error {
	return o.network.DeleteNodeRules(ctx, o.spec.LoadBalancerRef, vpc.NodeRules{LoadBalancer: o.wish.Name})
}

// refOf is the Service for which an object was made. A load balancer's name lacks the last digit of its UID, which the name of its
// security group tells, if there is one.
func (l *LoadBalancers) refOf(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) (cloud.LoadBalancerRef, error) {
	namespace, name, _ := strings.Cut(o.Mark.Service, "/")
	ref := cloud.LoadBalancerRef{Cluster: cluster, Namespace: namespace, Name: name, UID: o.ID}
	if o.Kind == GroupKind {
		return ref, nil
	}
	for _, ref.UID = range plan.UIDs(o.Name) {
		if id, err := l.network.FindGroup(ctx, ref, plan.GroupName(ref)); err != nil || id != "" {
			return ref, err
		}
	}
	return ref, nil
}

// lookFor reads anew what is to be deleted. Of a load balancer that is gone, the rest is.
func (o *operation) lookFor(ctx context.Context, one cloud.Owned) error {
	all, err := o.store.get(ctx, o.now())
	if err != nil {
		return err
	}
	o.m = &memory{read: o.now()}
	if one.Kind == GroupKind {
		if g := all.groups[one.ID]; g != nil {
			if now := ownedGroup(g, o.spec.Cluster); now == nil || now.Mark != one.Mark || now.Name != one.Name {
				return changed(one, g.Tags)
			}
			o.m.left = []*plan.TargetGroup{g.Clone()}
		}
		return nil
	}
	b, groups, foreign := find(all, o.spec.LoadBalancerRef)
	if foreign {
		return changed(one, nil)
	}
	if b != nil {
		now := ownedBalancer(b, o.spec.Cluster)
		if now == nil || now.ID != one.ID || now.Mark != one.Mark || !now.Created.Equal(one.Created) {
			return changed(one, b.Tags)
		}
	}
	groups = slices.DeleteFunc(groups, func(g *plan.TargetGroup) bool { return !goesWith(g, b, one, o.spec.Cluster) })
	if o.m = (&memory{balancer: b, left: groups, read: o.now()}).clone(); b != nil {
		o.m.balancer.Groups, o.m.left = o.m.left, nil
	}
	return nil
}

// goesWith reports whether a target group of the Service goes with its load balancer, nil for one that is gone: the load balancer has it, or
// it is proven at least as well whose it is. Another cluster with the same ID may have a Service of that name.
func goesWith(g *plan.TargetGroup, b *plan.Balancer, one cloud.Owned, cluster cloud.Cluster) bool {
	if b != nil && slices.Contains(g.Balancers, b.ARN) {
		return true
	}
	m, ok := markOf(g.Tags, cluster)
	return ok && (m.ClusterUID != "" || one.Mark.ClusterUID == "")
}

func changed(o cloud.Owned, now map[string]string) error {
	return cloud.Errorf(cloud.KindConflict, "%s %s is not what it was: its tags are %q now", o.Kind, o.Name, now)
}
