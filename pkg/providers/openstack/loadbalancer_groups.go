package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// groupCache remembers which Services' security groups were seen as they shall be, by the
// Service's UID. An entry is believed for treeTTL; then the group is read again.
type groupCache struct {
	mu      sync.Mutex
	entries map[string]groupState
}

// groupState is a security group that was seen, or made, as wanted.
type groupState struct {
	id      string
	checked time.Time
	// subnets are those of the members.
	subnets []string
	rules   []groupRule
	members map[netip.Addr]groupMember
	// warnings are those of the members that have no port.
	warnings []string
}

// groupMember is an address of a Node. server is its server's ID, "" when it is not known.
type groupMember struct{ node, server string }

func (c *groupCache) get(uid string, now time.Time) (groupState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.entries[uid]
	return s, ok && now.Sub(s.checked) <= treeTTL
}

func (c *groupCache) put(uid string, s groupState, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]groupState{}
	}
	maps.DeleteFunc(c.entries, func(_ string, old groupState) bool { return now.Sub(old.checked) > treeTTL })
	c.entries[uid] = s
}

func (c *groupCache) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, uid)
}

// groupWork is what is left to do for the Service's security group after the load balancer
// was changed: to close what nothing needs any more.
type groupWork struct {
	uid     string
	state   groupState
	surplus []groupRule
	drop    []*groupPort
}

// openGroup lets the load balancer reach the members that it is about to get: it makes the
// Service's security group, its rules, and gives it to the members' ports. What is too
// much is closed by closeGroup, after the load balancer has stopped to use it. Nil when
// there is nothing to do: groups are not managed, or all is known to be as it shall be.
func (o *lbOperation) openGroup(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, tree *lbTree) (*groupWork, error) {
	switch {
	case w.spec.UID == "":
		return nil, nil
	case w.spec.Frozen:
		return o.openFrozenGroup(ctx, w)
	}
	if !w.cfg.ManageSecurityGroups {
		if !o.readTree {
			return nil, nil
		}
		return nil, o.deleteOldGroup(ctx, w.spec.LoadBalancerRef)
	}
	now := o.lb.now()
	known, ok := o.lb.groups.get(w.spec.UID, now)
	ok = ok && !w.spec.Verify
	subnets, err := o.memberSubnets(ctx, w, lb, owner, tree, known.subnets)
	if err != nil {
		return nil, err
	}
	sources, err := o.groupSources(ctx, w, lb, subnets)
	if err != nil {
		return nil, err
	}
	want := groupState{checked: now, subnets: subnets, rules: groupRules(w, sources), members: groupMembers(w)}
	sameRules := ok && slices.Equal(known.rules, want.rules)
	if sameRules && maps.Equal(known.members, want.members) {
		o.warnings = append(o.warnings, known.warnings...)
		return nil, nil
	}
	o.lb.groups.forget(w.spec.UID)
	work := &groupWork{uid: w.spec.UID, state: want}
	if sameRules { // only Nodes have come or gone
		work.state.id, work.state.checked = known.id, known.checked
		return work, o.openPorts(ctx, w, work, &known)
	}
	if work.surplus, err = o.openRules(ctx, w, &work.state); err != nil {
		return nil, err
	}
	return work, o.openPorts(ctx, w, work, nil)
}

// closeGroup finishes what openGroup has begun.
func (o *lbOperation) closeGroup(ctx context.Context, work *groupWork) error {
	if work == nil {
		return nil
	}
	for _, r := range work.surplus {
		klog.FromContext(ctx).V(2).Info("Deleting rule of security group", "securityGroup", work.state.id, "rule", r.key())
		if err := gone(rules.Delete(ctx, o.neutron, r.ID).ExtractErr()); err != nil {
			return api.WrapError("delete security group rule "+r.ID, err)
		}
	}
	if err := o.changeGroups(ctx, work.drop, work.state.id, false); err != nil {
		return err
	}
	o.lb.groups.put(work.uid, work.state, o.lb.now())
	o.warnings = append(o.warnings, work.state.warnings...)
	return nil
}

// groupMembers are the addresses that the load balancer may send to.
func groupMembers(w *lbWishes) map[netip.Addr]groupMember {
	out := map[netip.Addr]groupMember{}
	for _, m := range w.spec.Members {
		member := groupMember{node: m.Node.NodeName}
		if id, _, err := providerid.Parse(m.Node.ProviderID); err == nil {
			member.server = id
		}
		for _, ipv6 := range w.families() {
			if a, ok := memberAddress(m, ipv6); ok {
				out[a] = member
			}
		}
	}
	return out
}

// memberSubnets are the subnets of the Service's members, and the VIP's where members have
// none. Where a tree does not tell them they are those known, or read.
func (o *lbOperation) memberSubnets(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, tree *lbTree, known []string) ([]string, error) {
	subnets := map[string]bool{}
	ownership := lbOwnership{names: w.names, owner: owner}
	for _, l := range tree.Listeners {
		if !ownership.isOurs(l) || l.Pool == nil {
			continue
		}
		members := l.Pool.Members
		if l.Pool.Thin {
			if known != nil {
				return known, nil
			}
			var err error
			if members, err = listMembers(ctx, o.octavia, l.Pool.ID); err != nil {
				return nil, err
			}
		}
		for _, m := range members {
			subnets[cmp.Or(m.SubnetID, lb.VIPSubnetID)] = true
		}
	}
	if len(subnets) == 0 { // no members yet
		subnets[lb.VIPSubnetID] = true
	}
	return slices.Sorted(maps.Keys(subnets)), nil
}

// groupSources finds out where the Service's traffic comes from on its way to the Nodes. An
// amphora has an address in each subnet of its members, and reaches those without one from
// the VIP's.
func (o *lbOperation) groupSources(ctx context.Context, w *lbWishes, lb *octaviaLB, subnets []string) (s groupSources, err error) {
	for _, id := range subnets {
		cidr, err := o.lb.subnets.CIDR(ctx, id)
		if err != nil {
			return s, fmt.Errorf("find where load balancer %s sends from: %w", lb.ID, err)
		}
		s.inside = append(s.inside, cidr)
	}
	if lb.Provider == config.ProviderOVN {
		s.clients = w.clientRanges()
	}
	return s, nil
}

// openRules finds or makes the group and its missing rules, and returns those that are too many.
func (o *lbOperation) openRules(ctx context.Context, w *lbWishes, state *groupState) (surplus []groupRule, err error) {
	name := groupName(w.spec.LoadBalancerRef)
	all, err := o.findGroups(ctx, w.spec.LoadBalancerRef)
	if err != nil {
		return nil, err
	}
	var group securityGroup
	if len(all) > 0 {
		group = all[0] // of several, which a create whose answer was lost leaves, always the same
	} else {
		opts := groups.CreateOpts{Name: name, Description: groupDescription(w.spec.LoadBalancerRef)}
		var doc struct {
			Group *securityGroup `json:"security_group"`
		}
		if err := groups.Create(ctx, o.neutron, opts).ExtractInto(&doc); err != nil {
			return nil, api.WrapError("create security group "+name, err)
		}
		if doc.Group == nil || doc.Group.ID == "" {
			return nil, fmt.Errorf("create security group %s: the answer has no ID", name)
		}
		group = *doc.Group
		klog.FromContext(ctx).V(2).Info("Created security group", "securityGroup", group.ID, "name", name)
	}
	state.id = group.ID
	missing, surplus := diffRules(group.Rules, state.rules)
	if len(missing) == 0 {
		return surplus, nil
	}
	var opts []rules.CreateOpts
	for _, r := range missing {
		opts = append(opts, rules.CreateOpts{SecGroupID: group.ID, Direction: rules.RuleDirection(r.Direction), EtherType: rules.RuleEtherType(r.EtherType),
			Protocol: rules.RuleProtocol(r.Protocol), PortRangeMin: r.Min, PortRangeMax: r.Max, RemoteIPPrefix: r.Prefix})
	}
	if w.spec.Verify {
		o.repaired = append(o.repaired, fmt.Sprintf("create %d rules of security group %s", len(opts), name))
	}
	klog.FromContext(ctx).V(2).Info("Creating rules of security group", "securityGroup", group.ID, "rules", len(opts))
	if _, err := rules.CreateBulk(ctx, o.neutron, opts).Extract(); err != nil {
		return nil, api.WrapError("create rules of security group "+group.ID, err)
	}
	return surplus, nil
}

// findGroups are the project's security groups of the Service's name, in the order of their
// IDs. The name holds the Service's UID; one that carries another cluster's tag is not ours
// all the same.
func (o *lbOperation) findGroups(ctx context.Context, ref cloud.LoadBalancerRef) ([]securityGroup, error) {
	name := groupName(ref)
	all, err := api.ListAll[securityGroup](ctx, o.neutron, "security-groups", url.Values{"name": {name}}, "security_groups")
	if err != nil {
		return nil, api.WrapError("find security group "+name, err)
	}
	project, names := api.ProjectOf(o.neutron), namesFor(ref)
	all = slices.DeleteFunc(all, func(g securityGroup) bool {
		return g.Name != name || project != "" && g.ProjectID != "" && g.ProjectID != project || names.isForeign(g.Tags)
	})
	slices.SortFunc(all, func(a, b securityGroup) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// deleteGroups takes the Service's security group off all ports and deletes it.
func (o *lbOperation) deleteGroups(ctx context.Context, ref cloud.LoadBalancerRef) error {
	if ref.UID == "" {
		return nil
	}
	o.lb.groups.forget(ref.UID)
	all, err := o.findGroups(ctx, ref)
	if err != nil {
		return err
	}
	for _, g := range all {
		ports, err := o.portsWithGroup(ctx, g.ID)
		if err != nil {
			return err
		}
		if err := o.changeGroups(ctx, ports, g.ID, false); err != nil {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Deleting security group", "securityGroup", g.ID, "name", g.Name)
		err = gone(groups.Delete(ctx, o.neutron, g.ID).ExtractErr())
		if err = api.WrapError("delete security group "+g.ID, err); cloud.KindOf(err) == cloud.KindConflict {
			// Somebody has given it to a port meanwhile.
			err = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
