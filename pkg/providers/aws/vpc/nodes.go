package vpc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// nodeFirewall is the object that all Services share: the security groups of the Nodes.
const nodeFirewall = "the security groups of the Nodes"

// classicTenant makes a Service with a classic load balancer another tenant than the same with a network load balancer: where it is
// deleted, it may have both.
const classicTenant = "/classic"

func (r *NodeRules) tenant(ref cloud.LoadBalancerRef) cloud.LoadBalancerRef {
	if r.Source != "" || r.Former != "" || r.SharedFormer != "" {
		ref.UID += classicTenant
	}
	return ref
}

// EnsureNodeRules makes the groups of Nodes let in what is wanted, together with what other Services want: KindRetryAfter until
// that has been done, see joint.Objects. changed is what was done for the Service, a text for each group. With
// DisableSecurityGroupIngress it does nothing.
func (n *Network) EnsureNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, want NodeRules) (changed []string, err error) {
	if n.cfg.DisableSGIngress {
		return nil, nil
	}
	changed, err = n.nodes.Ensure(ctx, nodeFirewall, want.tenant(ref), want.sorted())
	return changed, later(err)
}

// later has a Service come back where what it needs has not settled: a group that is new, or that others keep changing.
func later(err error) error {
	if cloud.IsStale(err) {
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryNew, Err: err}
	}
	return err
}

// DeleteNodeRules takes a load balancer's rules out of the groups of Nodes, as EnsureNodeRules does. Of hint, LoadBalancer and
// Source count, with SharedSource, Former and SharedFormer.
func (n *Network) DeleteNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, hint NodeRules) error {
	if n.cfg.DisableSGIngress {
		return nil
	}
	return later(n.nodes.Delete(ctx, nodeFirewall, hint.tenant(ref), NodeRules{LoadBalancer: hint.LoadBalancer, Source: hint.Source,
		SharedSource: hint.SharedSource, Former: hint.Former, SharedFormer: hint.SharedFormer}))
}

// sorted is the same in an order, so that it equals what means the same.
func (r NodeRules) sorted() NodeRules {
	byText := func(p []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(p), func(a, b netip.Prefix) int { return cmp.Compare(a.String(), b.String()) })
	}
	r.Clients, r.Subnets = byText(r.Clients), byText(r.Subnets)
	r.Instances = slices.Sorted(slices.Values(r.Instances))
	r.Ports, r.HealthPorts = slices.Sorted(slices.Values(r.Ports)), slices.Sorted(slices.Values(r.HealthPorts))
	return r
}

// pass brings the rules of some Services into the groups of the Nodes: one read of all groups, and of each group that changes one
// call for what is let in and one for what is shut out. A group that cannot be written keeps no other from it, and an instance whose
// group is not known none but its own traffic.
func (n *Network) pass(ctx context.Context, _ string, all []joint.Tenant[NodeRules]) ([]cloud.Result[[]string], error) {
	groups, err := n.groups.Since(ctx, n.now(), n.listGroups)
	if err != nil {
		return nil, err
	}
	answers := make([]cloud.Result[[]string], len(all))
	var ids []string
	for _, t := range all {
		ids = append(ids, t.Desired.Instances...)
	}
	instances, err := n.instancesByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	held, err := n.held(ctx, formers(all, groups))
	if err != nil {
		return nil, err
	}
	var tenants []tenant
	passing := map[cloud.LoadBalancerKey]map[string]wish{}
	for i, t := range all {
		if s := t.Desired.Source; !t.Gone && s != "" && groups[s] == nil && !n.c.WouldMake(s) { // no group, or another VPC's: EC2 would refuse the others' rules with it
			answers[i].Err = absent(s, t.Desired.SharedSource)
			continue
		}
		var open, unsure []string
		open, unsure, answers[i].Err = n.groupsOf(instances, groups, t.Desired.Instances)
		one := newTenant(t, open, unsure)
		one.answer = &answers[i]
		tenants, passing[t.Ref.Key()] = append(tenants, one), one.wishes
	}
	groups = maps.Clone(groups)
	delete(groups, n.cfg.ElbSecurityGroup) // whose rules are left alone, also where Nodes have it
	var failed error
	by, others := indexed(tenants), n.others(passing)
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		g := groupRules{id: id, has: atomsIn(groups[id].IpPermissions), tagged: tags.Has(groups[id].Tags, n.cluster()), owed: n.owing(id), held: held}
		c := g.plan(by, others[id])
		n.owe(id, c.again)
		err := stale(id, n.write(ctx, id, c))
		switch cloud.KindOf(err) {
		case cloud.KindStale, cloud.KindUnavailable, cloud.KindThrottled: // of all
			return nil, err
		case cloud.KindDenied:
			g.refuse(tenants, c, err)
			continue
		}
		if err != nil { // because of one of the tenants, maybe
			failed = cmp.Or(failed, err)
			continue
		}
		n.paid(id)
		g.tell(tenants, c)
	}
	if failed != nil {
		return nil, failed
	}
	n.remember(passing)
	return answers, nil
}

// absent is the error of a Service whose load balancer has a security group that EC2 does not show in the VPC.
func absent(group string, shared bool) error {
	if shared {
		return cloud.Errorf(cloud.KindInvalid, "security group %s is not in the VPC of the Nodes; name others", group)
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryNew, Err: fmt.Errorf("EC2 does not show security group %s yet", group)}
}

// stale is the error of a group that others have changed since it was read, so that all is read again.
func stale(id string, err error) error {
	if cloud.IsNotFound(err) || cloud.IsStale(err) {
		return cloud.Errorf(cloud.KindStale, "security group %s has changed since it was read: %w", id, err)
	}
	return err
}

// groupsOf are the groups in which instances are let in: all of an instance's that have the cluster's tag, else its only one. unsure
// are those of instances of which that says nothing, which the error names.
func (n *Network) groupsOf(instances map[string]Instance, groups map[string]*types.SecurityGroup, ids []string) (open, unsure []string, err error) {
	of, doubtful := map[string]bool{}, 0
	for _, id := range ids {
		var tagged, known []string
		for _, g := range instances[id].Groups {
			if groups[g] == nil {
				continue // of an instance in another VPC, or gone since
			}
			known = append(known, g)
			if tags.Has(groups[g].Tags, n.cluster()) {
				tagged = append(tagged, g)
			}
		}
		if len(tagged) == 0 && len(known) > 1 {
			unsure = append(unsure, known...)
			if doubtful++; err == nil {
				err = fmt.Errorf("instance %s has %d security groups (%s), none with the tag %s, so that it may get no traffic; give that tag to the one whose rules shall let load balancers in",
					id, len(known), strings.Join(known, ", "), tags.Key(n.cluster()))
			}
			continue
		}
		if len(tagged) == 0 {
			tagged = known
		}
		for _, g := range tagged {
			of[g] = true
		}
	}
	if doubtful > 1 {
		err = fmt.Errorf("%w; so with %d instances more", err, doubtful-1)
	}
	if err != nil {
		err = &cloud.Error{Kind: cloud.KindFailed, Err: err}
	}
	return slices.Sorted(maps.Keys(of)), unsure, err
}

// others are the rules, by groups, that Services which are not in this pass were seen to have.
func (n *Network) others(passing map[cloud.LoadBalancerKey]map[string]wish) map[string]atoms {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := map[string]atoms{}
	for key, wishes := range n.wishes {
		if _, here := passing[key]; here {
			continue
		}
		for group, w := range wishes {
			if others[group] == nil {
				others[group] = atoms{}
			}
			maps.Copy(others[group], w.rules)
		}
	}
	return others
}

// owing are the rules of a group that are owed to Services.
func (n *Network) owing(group string) atoms {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.owed[group])
}

// owe notes rules that are about to be taken out of a group, though others need them: whichever pass comes next makes them again,
// should this one fail.
func (n *Network) owe(group string, again atoms) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(again) == 0 {
		return
	}
	if n.owed[group] == nil {
		n.owed[group] = atoms{}
	}
	maps.Copy(n.owed[group], again)
}

// paid forgets what was owed to others in a group, which is there by now.
func (n *Network) paid(group string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.owed, group)
}

// remember notes the rules of the Services of a pass that has ended.
func (n *Network) remember(passed map[cloud.LoadBalancerKey]map[string]wish) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, w := range passed {
		if n.wishes[key] = w; len(w) == 0 {
			delete(n.wishes, key)
		}
	}
}
