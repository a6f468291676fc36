package elb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Network is what classic load balancers need of the VPC.
type Network interface {
	Subnets(ctx context.Context, internal bool, named []string) ([]vpc.Subnet, error)
	Instances(ctx context.Context, members []cloud.LoadBalancerMember) (map[string]vpc.Instance, error)
	ForgetInstances()
	Groups
	Nodes
}

// Groups are the load balancers' own security groups.
type Groups interface {
	EnsureGroup(ctx context.Context, ref cloud.LoadBalancerRef, g vpc.Group, rules []vpc.Rule) (string, error)
	FindGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) (string, error)
	DeleteGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) error
}

// Nodes are the security groups of Nodes.
type Nodes interface {
	EnsureNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, want vpc.NodeRules) error
	DeleteNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, hint vpc.NodeRules) error
}

var _ Network = (*vpc.Network)(nil)

// LoadBalancers are the classic ones.
type LoadBalancers struct {
	c   *api.Client
	cfg *config.Global
	// cluster is the ID in the cluster's tag.
	cluster func() string
	net     Network
	all     balancers
}

var _ cloud.LoadBalancers = (*LoadBalancers)(nil)

// New makes the classic load balancers of the client's region. cluster is the ID in the cluster's tag, "" while it is not known.
func New(c *api.Client, cfg *config.Global, cluster func() string, n Network) *LoadBalancers {
	return &LoadBalancers{c: c, cfg: cfg, cluster: cluster, net: n, all: balancers{c: c}}
}

// Exists reports whether there is a classic load balancer with the Service's name, whoever it belongs to.
func (l *LoadBalancers) Exists(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	b, err := l.all.get(ctx, plan.Name(ref), false)
	return b != nil, err
}

// Ensure implements cloud.LoadBalancers.
func (l *LoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	d, err := plan.Resolve(spec, l.cfg)
	if err != nil {
		return nil, err
	}
	seen, marked, err := l.find(ctx, spec.LoadBalancerRef, spec.Verify)
	if err != nil {
		return nil, err
	}
	w := &plan.Wanted{Desired: d, Tags: d.Tags}
	if err := l.resolve(ctx, spec, w); err != nil {
		return nil, err
	}
	repair := spec.Verify && seen != nil
	if seen == nil {
		seen, err = l.create(ctx, spec.LoadBalancerRef, w)
	} else if !marked {
		w.Tags = l.tags(spec.LoadBalancerRef, d.Tags)
	}
	if err != nil {
		return nil, err
	}
	if w.Instances, err = l.instances(ctx, spec, seen.Instances); err != nil {
		return nil, err
	}
	if seen.Attributes, err = l.all.attributes(ctx, d.Name, spec.Verify); err != nil {
		return nil, err
	}
	rules, own, err := l.rules(ctx, spec.LoadBalancerRef, seen, w)
	if err != nil {
		return nil, err
	}
	// The load balancer goes on to be made while the Nodes are opened for it together with those of others.
	opened := l.net.EnsureNodeRules(ctx, spec.LoadBalancerRef, rules)
	if opened != nil && cloud.KindOf(opened) != cloud.KindRetryAfter {
		return nil, opened
	}
	c := plan.Diff(seen, w)
	if err := l.apply(ctx, d.Name, &c); err != nil {
		return nil, err
	}
	switch {
	case opened != nil || own == "":
	case rules.Former == "": // nothing comes from it any more from now on
		opened = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStale, Progress: true, Err: fmt.Errorf("security group %s, which load balancer %s does not have any more, is to be deleted", own, d.Name)}
	default:
		opened = l.net.DeleteGroup(ctx, spec.LoadBalancerRef, plan.GroupName(spec.LoadBalancerRef))
	}
	status := &cloud.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: seen.DNSName}}}
	if _, status.Warnings = plan.Check(spec, l.cfg); repair {
		for _, what := range c.Summary() {
			status.Repaired = append(status.Repaired, what+" of load balancer "+d.Name)
		}
	}
	return status, opened
}

// find is the load balancer of the Service, nil for none. marked is false for one that has to be marked first. One that is somebody
// else's is KindConflict.
func (l *LoadBalancers) find(ctx context.Context, ref cloud.LoadBalancerRef, verify bool) (seen *plan.Observed, marked bool, err error) {
	name := plan.Name(ref)
	b, err := l.all.get(ctx, name, verify)
	if err != nil || b == nil {
		return nil, false, err
	}
	seen = observed(b)
	if seen.Tags, err = l.all.tags(ctx, name, verify); err != nil {
		return nil, false, err
	}
	switch whose := l.judge(ref, seen); whose {
	case cloud.Foreign:
		return nil, false, cloud.Errorf(cloud.KindConflict, "classic load balancer %s has the name of the Service's, but its tags are not: %s=%s/%s and %s; correct them if it is, or delete it",
			name, plan.Service, ref.Namespace, ref.Name, tags.Key(l.cluster()))
	default:
		return seen, whose == cloud.Ours, nil
	}
}

// judge says whose a load balancer with the Service's name is.
func (l *LoadBalancers) judge(ref cloud.LoadBalancerRef, seen *plan.Observed) cloud.Ownership {
	cluster := l.cluster()
	m := cloud.Mark{Service: seen.Tags[plan.Service]}
	if has := api.Tags(seen.Tags); tags.Has(has, cluster) {
		m.ClusterID = cluster
	} else if other, err := tags.ClusterOf(has); err == nil {
		m.ClusterID = other
	}
	ref.Cluster.ID = cluster
	published := slices.ContainsFunc(ref.CurrentIngress, func(i corev1.LoadBalancerIngress) bool { return i.Hostname == seen.DNSName })
	return cloud.Judge(m, cloud.Evidence{NameFits: true, Published: published}, ref)
}

// tags are those of a new load balancer.
func (l *LoadBalancers) tags(ref cloud.LoadBalancerRef, more map[string]string) map[string]string {
	out := maps.Clone(more)
	out[plan.Service] = ref.Namespace + "/" + ref.Name
	return tags.New(l.cluster(), l.cfg.KubernetesClusterTag != "", out)
}

// resolve finds the subnets, and makes the load balancer's own security group.
func (l *LoadBalancers) resolve(ctx context.Context, spec *cloud.LoadBalancerSpec, w *plan.Wanted) error {
	subnets, err := l.net.Subnets(ctx, w.Internal, w.NamedSubnets)
	if err != nil {
		return err
	}
	for _, s := range subnets {
		w.Subnets = append(w.Subnets, s.ID)
	}
	w.Groups = slices.Clone(w.BaseGroups)
	if len(w.Groups) == 0 {
		var rules []vpc.Rule
		for _, p := range spec.Ports {
			rules = append(rules, vpc.Rule{Protocol: "tcp", From: p.Port, To: p.Port, CIDRs: w.Clients})
		}
		rules = append(rules, vpc.Rule{Protocol: "icmp", From: 3, To: 4, CIDRs: w.Clients})
		g := vpc.Group{Name: plan.GroupName(spec.LoadBalancerRef), Description: plan.GroupDescription(spec.LoadBalancerRef), Tags: w.Desired.Tags}
		id, err := l.net.EnsureGroup(ctx, spec.LoadBalancerRef, g, rules)
		if err != nil {
			return err
		}
		w.Groups = []string{id}
	}
	for _, g := range w.ExtraGroups {
		if !slices.Contains(w.Groups, g) {
			w.Groups = append(w.Groups, g)
		}
	}
	return nil
}

// nodeRules are those for a load balancer with groups: all is let in from the first.
func (l *LoadBalancers) nodeRules(ref cloud.LoadBalancerRef, groups, instances []string) vpc.NodeRules {
	out := vpc.NodeRules{LoadBalancer: plan.Name(ref), Instances: instances}
	if len(groups) > 0 {
		out.Source = groups[0]
		out.SharedSource = len(plan.BaseGroups(ref.Settings, l.cfg)) > 0
	}
	return out
}

// instances are the IDs of those that shall be registered, of a load balancer that has those of have.
func (l *LoadBalancers) instances(ctx context.Context, spec *cloud.LoadBalancerSpec, have []string) ([]string, error) {
	if spec.Frozen && len(spec.Members) == 0 {
		var candidates []string
		for _, m := range spec.Candidates {
			if id, err := providerid.Parse(m.Node.ProviderID); err == nil {
				candidates = append(candidates, id)
			}
		}
		left := slices.DeleteFunc(slices.Clone(have), func(id string) bool { return !slices.Contains(candidates, id) })
		if len(left) == 0 {
			return have, nil
		}
		return left, nil
	}
	found, err := l.net.Instances(ctx, spec.Members)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *LoadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	seen, _, err := l.find(ctx, spec.LoadBalancerRef, false)
	if err != nil {
		return err
	}
	if seen == nil {
		return cloud.Errorf(cloud.KindNotFound, "there is no classic load balancer %s", plan.Name(spec.LoadBalancerRef))
	}
	want, err := l.instances(ctx, spec, seen.Instances)
	if err != nil {
		return err
	}
	groups, err := l.ordered(ctx, spec.LoadBalancerRef, seen.Groups)
	if err != nil {
		return err
	}
	opened := l.net.EnsureNodeRules(ctx, spec.LoadBalancerRef, l.nodeRules(spec.LoadBalancerRef, groups, want))
	if opened != nil && cloud.KindOf(opened) != cloud.KindRetryAfter {
		return opened
	}
	c := plan.Members(seen, want)
	if err := l.apply(ctx, plan.Name(spec.LoadBalancerRef), &c); err != nil {
		return err
	}
	return opened
}

// ordered puts the groups that a load balancer has in the order in which they are wanted: those in place of its own, or its own,
// before others.
func (l *LoadBalancers) ordered(ctx context.Context, ref cloud.LoadBalancerRef, groups []string) ([]string, error) {
	first := plan.BaseGroups(ref.Settings, l.cfg)
	if len(first) == 0 {
		own, err := l.net.FindGroup(ctx, ref, plan.GroupName(ref))
		if err != nil {
			return nil, err
		}
		first = []string{own}
	}
	extra := text.List(ref.Settings.String(annotations.ExtraSecurityGroups, ""))
	place := func(id string) int {
		switch i := slices.Index(first, id); {
		case i >= 0:
			return i
		case slices.Contains(extra, id):
			return len(first) + 1 + slices.Index(extra, id)
		}
		return len(first)
	}
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return out, nil
}

// rules are those of a load balancer in the groups of Nodes. own is its own security group where it is to have others in its place:
// while it still has that, so have its rules.
func (l *LoadBalancers) rules(ctx context.Context, ref cloud.LoadBalancerRef, seen *plan.Observed, w *plan.Wanted) (rules vpc.NodeRules, own string, err error) {
	rules = l.nodeRules(ref, w.Groups, w.Instances)
	if len(w.BaseGroups) == 0 {
		return rules, "", nil
	}
	own, err = l.net.FindGroup(ctx, ref, plan.GroupName(ref))
	if err != nil || own == "" || slices.Contains(w.Groups, own) {
		return rules, "", err
	}
	if !slices.Contains(seen.Groups, own) {
		rules.Former = own
	}
	return rules, own, nil
}

// Delete implements cloud.LoadBalancers: the rules that let the load balancer in, it, and its own security group, each found by its
// name and tags, also where the others are gone.
func (l *LoadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	ref := spec.LoadBalancerRef
	seen, _, err := l.find(ctx, ref, false)
	if err == nil && seen == nil { // the list may lack it
		seen, _, err = l.find(ctx, ref, true)
	}
	if err != nil && cloud.KindOf(err) != cloud.KindConflict { // somebody else's stays
		return err
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

// deleteRules closes the Nodes for the load balancer. That nobody else needs what is let in of a shared group the other load
// balancers tell.
func (l *LoadBalancers) deleteRules(ctx context.Context, ref cloud.LoadBalancerRef, seen *plan.Observed, own string) error {
	hint := vpc.NodeRules{LoadBalancer: plan.Name(ref), Former: own}
	if seen != nil {
		groups, err := l.ordered(ctx, ref, seen.Groups)
		if err != nil {
			return err
		}
		if len(groups) > 0 && groups[0] != own {
			hint.Source, hint.SharedSource = groups[0], true
			if hint.LastOfSource, err = l.all.isLast(ctx, plan.Name(ref), groups[0]); err != nil {
				return err
			}
		}
	}
	if hint.Source == "" && hint.Former == "" {
		return nil
	}
	return l.net.DeleteNodeRules(ctx, ref, hint)
}

// retryStale is when to look again at what others have changed.
const retryStale = 2 * time.Second
