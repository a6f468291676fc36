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
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Ensure implements cloud.LoadBalancers.
func (l *LoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	status, changed, err := l.ensure(ctx, spec)
	if !spec.Verify {
		return status, err
	}
	name, now := plan.Name(spec.LoadBalancerRef), time.Now()
	before, _ := l.repairs.Take(name, now)
	changed = slices.Compact(slices.Sorted(slices.Values(append(changed, before...))))
	if err != nil {
		l.repairs.Put(name, changed, now, now.Add(detailAge))
		return status, err
	}
	status.Repaired = changed
	return status, nil
}

// ensure is Ensure that returns what it has changed, where it is not all that there is.
func (l *LoadBalancers) ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (status *cloud.LoadBalancerStatus, changed []string, err error) {
	d, err := plan.Resolve(spec, l.cfg)
	if err != nil {
		return nil, nil, err
	}
	l.all.going.Forget(d.Name)
	seen, marked, err := l.find(ctx, spec.LoadBalancerRef, spec.Verify)
	if err != nil {
		return nil, nil, err
	}
	w := &plan.Wanted{Desired: d, Tags: d.Tags}
	changed, err = l.resolve(ctx, spec, w)
	if err != nil {
		return nil, nil, err
	}
	made := seen == nil
	if made {
		seen, err = l.create(ctx, spec.LoadBalancerRef, w)
	} else if !marked {
		w.Tags = l.tags(spec.LoadBalancerRef, d.Tags)
	}
	if err != nil {
		return nil, nil, err
	}
	members, later, err := l.instances(ctx, spec, seen.Instances)
	if err != nil {
		return nil, changed, err
	}
	w.Instances = members
	if seen.Attributes, err = l.all.attributes(ctx, d.Name, spec.Verify); err != nil {
		return nil, changed, err
	}
	rules, own, err := l.rules(ctx, spec.LoadBalancerRef, seen, w)
	if err != nil {
		return nil, changed, err
	}
	// The load balancer goes on to be made while the Nodes are opened for it together with those of others.
	more, opened := l.net.EnsureNodeRules(ctx, spec.LoadBalancerRef, rules)
	changed = append(changed, more...)
	c := plan.Diff(seen, w)
	if kind := cloud.KindOf(opened); opened != nil && kind != cloud.KindRetryAfter && kind != cloud.KindFailed {
		c.Groups = nil // the Nodes may not let in what comes from others
	}
	for _, what := range c.Summary() {
		changed = append(changed, what+" of load balancer "+d.Name)
	}
	if made {
		changed = again(spec)
	}
	if err := l.apply(ctx, d.Name, &c); err != nil {
		return nil, changed, err
	}
	if opened == nil && own != "" {
		opened = l.dropGroup(ctx, spec.LoadBalancerRef, own, rules.Former != "")
	}
	if opened == nil {
		opened = l.left(d.Name, seen)
	}
	status = &cloud.LoadBalancerStatus{ID: d.Name, Ingress: []corev1.LoadBalancerIngress{{Hostname: seen.DNSName}}, Warnings: warnings(spec, seen, w)}
	return status, changed, cmp.Or(opened, later)
}

// warnings are what the Service's author is told of a load balancer that is served.
func warnings(spec *cloud.LoadBalancerSpec, seen *plan.Observed, w *plan.Wanted) []string {
	_, all := plan.Check(spec)
	if w.Internal != seen.Internal {
		all = append(all, annotations.InternalStays(seen.Internal))
	}
	return all
}

// again is what there is to say of a load balancer that was made for a Service that shows one.
func again(spec *cloud.LoadBalancerSpec) []string {
	if len(spec.CurrentIngress) == 0 {
		return nil
	}
	return []string{"load balancer " + plan.Name(spec.LoadBalancerRef) + " was gone and was made anew"}
}

// dropGroup deletes the load balancer's own security group, which has others in its place. closed says that the Nodes let nothing in
// from it any more; before, the load balancer must have been without it.
func (l *LoadBalancers) dropGroup(ctx context.Context, ref cloud.LoadBalancerRef, own string, closed bool) error {
	if closed || l.c.DryRun() { // of which nothing can be seen
		return l.net.DeleteGroup(ctx, ref, plan.GroupName(ref))
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStale, Progress: true,
		Err: fmt.Errorf("security group %s, which load balancer %s does not have any more, is to be deleted", own, plan.Name(ref))}
}

// resolve finds the subnets, and makes the load balancer's own security group; changed is what that was not.
func (l *LoadBalancers) resolve(ctx context.Context, spec *cloud.LoadBalancerSpec, w *plan.Wanted) (changed []string, err error) {
	subnets, err := l.net.Subnets(ctx, w.Internal, w.NamedSubnets)
	if err != nil {
		return nil, err
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
		ref := spec.LoadBalancerRef
		g := vpc.Group{Name: plan.GroupName(ref), Description: plan.GroupDescription(ref), Tags: w.Desired.Tags}
		var id string
		if id, changed, err = l.net.EnsureGroup(ctx, ref, g, rules); err != nil {
			return nil, err
		}
		w.Groups = []string{id}
	}
	for _, g := range w.ExtraGroups {
		if !slices.Contains(w.Groups, g) {
			w.Groups = append(w.Groups, g)
		}
	}
	return changed, nil
}

// nodeRules are those for a load balancer with groups: all is let in from the first, which others may have unless it is own.
func nodeRules(ref cloud.LoadBalancerRef, groups []string, own string, instances []string) vpc.NodeRules {
	out := vpc.NodeRules{LoadBalancer: plan.Name(ref), Instances: instances}
	if len(groups) > 0 {
		out.Source, out.SharedSource = groups[0], groups[0] != own
	}
	return out
}

// instances are the IDs of those that shall be registered, of a load balancer that has those of have. An answer by which none is
// there of several is not believed: it may be another account's. later is why to come back: one that does not run gets no traffic.
func (l *LoadBalancers) instances(ctx context.Context, spec *cloud.LoadBalancerSpec, have []string) (out []string, later, err error) {
	if spec.Frozen && len(spec.Members) == 0 {
		candidates := idsOf(spec.Candidates)
		left := slices.DeleteFunc(slices.Clone(have), func(id string) bool { return !slices.Contains(candidates, id) })
		if len(left) == 0 {
			return have, nil, nil
		}
		return left, nil, nil
	}
	found, later, err := l.net.Instances(ctx, spec.Members)
	if err != nil {
		return nil, nil, err
	}
	if want := idsOf(spec.Members); len(found) == 0 && len(want) > 0 && len(have) > 0 {
		return nil, nil, cloud.Errorf(cloud.KindUnknown,
			"EC2 knows none of the %d instances of Nodes, such as %s, so load balancer %s keeps its own; are the credentials and the region the cluster's?",
			len(want), want[0], plan.Name(spec.LoadBalancerRef))
	}
	maps.DeleteFunc(found, func(id string, i vpc.Instance) bool { // AWS refuses all with one that does not run
		if i.State == "running" || i.State == "pending" || slices.Contains(have, id) {
			return false
		}
		later = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStopped,
			Err: fmt.Errorf("instance %s is a Node's, but %s: it gets no traffic until it runs", id, i.State)}
		return true
	})
	return slices.Sorted(maps.Keys(found)), later, nil
}

// idsOf are the IDs of Nodes' instances; others are no instances of EC2's.
func idsOf(members []cloud.LoadBalancerMember) []string {
	var out []string
	for _, m := range members {
		if id, err := providerid.Parse(m.Node.ProviderID); err == nil {
			out = append(out, id)
		}
	}
	return out
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
	want, later, err := l.instances(ctx, spec, seen.Instances)
	if err != nil {
		return err
	}
	own, err := l.net.FindGroup(ctx, spec.LoadBalancerRef, plan.GroupName(spec.LoadBalancerRef))
	if err != nil {
		return err
	}
	groups := l.ordered(spec.LoadBalancerRef, seen.Groups, own)
	_, opened := l.net.EnsureNodeRules(ctx, spec.LoadBalancerRef, nodeRules(spec.LoadBalancerRef, groups, own, want))
	c := plan.Members(seen, want)
	if err := l.apply(ctx, plan.Name(spec.LoadBalancerRef), &c); err != nil {
		return err
	}
	return cmp.Or(opened, later)
}

// ordered puts the groups that a load balancer has in the order in which they are wanted: those in place of its own, or its own,
// before others.
func (l *LoadBalancers) ordered(ref cloud.LoadBalancerRef, groups []string, own string) []string {
	first := plan.BaseGroups(ref.Settings, l.cfg)
	if len(first) == 0 {
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
	return out
}

// rules are those of a load balancer in the groups of Nodes. own is its own security group where it is to have others in its place:
// while it still has that, so have its rules.
func (l *LoadBalancers) rules(ctx context.Context, ref cloud.LoadBalancerRef, seen *plan.Observed, w *plan.Wanted) (rules vpc.NodeRules, own string, err error) {
	if len(w.BaseGroups) == 0 {
		rules = nodeRules(ref, w.Groups, w.Groups[0], w.Instances)
		rules.SharedFormer, err = l.former(ctx, ref, seen, w, w.Groups[0])
		return rules, "", err
	}
	rules = nodeRules(ref, w.Groups, "", w.Instances)
	if own, err = l.net.FindGroup(ctx, ref, plan.GroupName(ref)); err != nil {
		return rules, "", err
	}
	if rules.SharedFormer, err = l.former(ctx, ref, seen, w, own); err != nil || own == "" || slices.Contains(w.Groups, own) {
		return rules, "", err
	}
	if !slices.Contains(seen.Groups, own) {
		rules.Former = own
	}
	return rules, own, nil
}

// formerAge is for how long a group is remembered of which nothing is to be let in any more.
const formerAge = 24 * time.Hour

// former is the group of which Nodes need not let the load balancer in any more: not its own one, which it has just given up, and which
// no other has. Nothing but a memory of it tells of that: when the process ends before the Nodes are closed, they stay open for whatever
// gets the group.
func (l *LoadBalancers) former(ctx context.Context, ref cloud.LoadBalancerRef, seen *plan.Observed, w *plan.Wanted, own string) (string, error) {
	now := time.Now()
	if len(seen.Groups) > 0 {
		if first := l.ordered(ref, seen.Groups, own)[0]; first != own && !slices.Contains(w.Groups, first) {
			l.formers.Put(w.Name, first, now, now.Add(formerAge))
		}
	}
	former, remembered := l.formers.Get(w.Name, now)
	switch {
	case !remembered || slices.Contains(seen.Groups, former): // it goes first
		return "", nil
	case slices.Contains(w.Groups, former):
		l.formers.Forget(w.Name)
		return "", nil
	}
	if others, err := l.all.others(ctx, w.Name, former); others || err != nil {
		return "", err
	}
	return former, nil
}

// left ends the memory of a group that the load balancer had in place of its own, once the Nodes let nothing in of it.
func (l *LoadBalancers) left(name string, seen *plan.Observed) error {
	former, remembered := l.formers.Get(name, time.Now())
	if remembered && slices.Contains(seen.Groups, former) && !l.c.DryRun() {
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryStale, Progress: true,
			Err: fmt.Errorf("security group %s, which load balancer %s does not have any more, need not be let in by Nodes", former, name)}
	}
	l.formers.Forget(name)
	return nil
}
