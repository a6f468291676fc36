package octavia

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// firewall is a Service's security group as it was seen, or made, as wanted.
type firewall struct {
	group   string
	subnets []string // of the members
	rules   []neutron.Rule
	members neutron.Members
	without []string // Nodes of them that have no port
	warning string
	until   time.Time // when it is read again

	// What is to be closed when the load balancer has stopped to use it.
	surplus []neutron.Rule
	left    []*neutron.Port
}

// openFirewall lets the load balancer reach the members that it is about to get: it makes the
// Service's security group, its rules, and gives it to the members' ports. What is too
// much is closed by closeFirewall, after the load balancer has stopped to use it. There is
// nothing to do where groups are not managed, or all is known to be as it shall be.
func (r *reconciliation) openFirewall(ctx context.Context) (err error) {
	d := r.desired
	switch {
	case r.ref.UID == "":
		return nil
	case !d.Config.ManageSecurityGroups:
		if r.known.phase.isNew() && len(d.Published()) == 0 {
			r.noGroup.Put(r.ref.UID, true, r.now(), r.now().Add(processTTL))
		}
		if d.Spec.Frozen || !r.readTree {
			return nil
		}
		return r.deleteFirewall(ctx)
	case d.Spec.Frozen:
		return r.openFrozen(ctx)
	}
	known, ok := r.firewalls.Get(r.ref.UID, r.now())
	ok = ok && !d.Spec.Verify
	want := firewall{members: groupMembers(d), until: r.now().Add(treeTTL)}
	if want.subnets, err = r.memberSubnets(ctx, known.subnets); err != nil {
		return err
	}
	if want.rules, err = r.groupRules(ctx, want.subnets); err != nil {
		return err
	}
	same := maps.Equal(known.members, want.members)
	if !ok || !slices.Equal(known.rules, want.rules) || known.left != nil && !same {
		r.firewalls.Forget(r.ref.UID)
		if err := r.openRules(ctx, &want); err != nil {
			return err
		}
		return r.openPorts(ctx, want, nil)
	}
	if same {
		r.warn(known.warning)
		if known.left != nil { // an operation before had no time for that
			r.firewall = &known
		}
		return nil
	}
	want.group, want.until = known.group, known.until // only Nodes have come or gone
	having := maps.Clone(known.members)
	maps.DeleteFunc(having, func(_ netip.Addr, m neutron.Member) bool { return slices.Contains(known.without, m.Node) })
	return r.openPorts(ctx, want, having)
}

// openFrozen gives the Service's security group, whose rules stay as they are, to the members.
func (r *reconciliation) openFrozen(ctx context.Context) error {
	if len(r.desired.Spec.Members) == 0 {
		return nil
	}
	all, err := r.findGroups(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	return r.openPorts(ctx, firewall{group: all[0].ID, members: groupMembers(r.desired)}, nil)
}

// openPorts gives the group to the members' ports that lack it, and finds those that are left over from
// Nodes that are no members any more. known are the members that are known to have it, nil for none.
func (r *reconciliation) openPorts(ctx context.Context, f firewall, known neutron.Members) error {
	placed, err := r.groups().Place(ctx, r.ref, neutron.Membership{Group: f.group, Members: f.members, Known: known})
	if err != nil {
		if cloud.KindOf(err) != cloud.KindRetryAfter { // the group may be gone: it is looked for anew
			r.firewalls.Forget(r.ref.UID)
		}
		return r.resumeLater(err)
	}
	f.without = placed.Without
	if n := len(f.without); n > 0 {
		f.warning = fmt.Sprintf("%d nodes have no Neutron port of this project with their address, so that the security group %s could not be given to them: %s; open their node ports by a group of yours",
			n, groupName(r.ref), strings.Join(f.without[:min(n, 10)], ", "))
	}
	r.warn(f.warning)
	if placed.Given > 0 && r.desired.Spec.Verify {
		r.repaired = append(r.repaired, fmt.Sprintf("give the security group to the ports of %d nodes", placed.Given))
	}
	if len(placed.Left) > 0 {
		f.left = placed.Left
	}
	r.firewall = &f
	return nil
}

// resumeLater has the Service's next operation go on with this one's load balancer.
func (r *reconciliation) resumeLater(err error) error {
	if cloud.KindOf(err) == cloud.KindRetryAfter {
		r.keepWork()
	}
	return err
}

// closeFirewall finishes what openFirewall has begun.
func (r *reconciliation) closeFirewall(ctx context.Context) error {
	f := r.firewall
	if f == nil {
		return nil
	}
	for _, x := range f.surplus {
		if err := r.groups().DeleteRule(ctx, f.group, x); err != nil {
			return err
		}
	}
	f.surplus = nil
	if len(f.left) > 0 {
		r.rememberFirewall(f)
		if _, err := r.groups().Place(ctx, r.ref, neutron.Membership{Group: f.group, Drop: f.left}); err != nil {
			return r.resumeLater(err)
		}
	}
	f.left = nil
	r.rememberFirewall(f)
	return nil
}

// rememberFirewall remembers what is known of the Service's group; of one whose rules were not looked at
// nothing is.
func (r *reconciliation) rememberFirewall(f *firewall) {
	if r.firewalls.Forget(r.ref.UID); !f.until.IsZero() {
		r.firewalls.Put(r.ref.UID, *f, r.now(), f.until)
	}
}

// groupMembers are the addresses that the load balancer may send to.
func groupMembers(d *plan.Desired) neutron.Members {
	out := neutron.Members{}
	for _, m := range d.Spec.Members {
		id, _, _ := providerid.Parse(m.Node.ProviderID) // "" where it tells none
		for _, ipv6 := range d.Families() {
			if a, ok := family.Address(m, ipv6); ok {
				out[a] = neutron.Member{Node: m.Node.NodeName, Server: id}
			}
		}
	}
	return out
}

// memberSubnets are the subnets of the Service's members, and the VIP's where members have
// none. Where a tree does not tell them they are those known, or read.
func (r *reconciliation) memberSubnets(ctx context.Context, known []string) ([]string, error) {
	subnets := map[string]bool{}
	for _, l := range r.known.tree.Listeners {
		if !r.desired.Names.IsOurs(l, r.work.role) || l.Pool == nil {
			continue
		}
		members := l.Pool.Members
		if l.Pool.Thin {
			if known != nil {
				return known, nil
			}
			var err error
			if members, err = r.octavia.Members(ctx, l.Pool.ID); err != nil {
				return nil, err
			}
		}
		for _, m := range members {
			subnets[cmp.Or(m.SubnetID, r.lb.VIPSubnetID)] = true
		}
	}
	if len(subnets) == 0 { // no members yet
		subnets[r.lb.VIPSubnetID] = true
	}
	return slices.Sorted(maps.Keys(subnets)), nil
}

// groupRules are the rules for a load balancer with members in subnets. An amphora has an address in each
// of them, and reaches members without one from the VIP's; ovn keeps the clients' addresses.
func (r *reconciliation) groupRules(ctx context.Context, subnets []string) ([]neutron.Rule, error) {
	var inside, clients []netip.Prefix
	for _, id := range subnets {
		cidr, err := r.subnets.CIDR(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("find where load balancer %s sends from: %w", r.lb.ID, err)
		}
		inside = append(inside, cidr)
	}
	if r.lb.Provider == config.ProviderOVN {
		clients = r.desired.ClientRanges()
	}
	return groupRules(r.desired.Service, inside, clients), nil
}

// groupRules are the rules that let the Service's traffic reach the Nodes: each node port
// from inside, the load balancer's own networks, or, where it keeps the clients' addresses, from
// clients (nil where it connects by itself), and the port of the health check of policy Local. Health
// checks of an ovn load balancer come from the members' networks.
func groupRules(d *plan.Service, inside, clients []netip.Prefix) []neutron.Rule {
	_, monitored := d.Monitor()
	unheld := slices.DeleteFunc(slices.Clone(inside), func(p netip.Prefix) bool { // what no prefix of clients holds
		return slices.ContainsFunc(clients, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) })
	})
	rules := map[string]neutron.Rule{}
	add := func(protocol string, port int32, from []netip.Prefix) {
		for _, p := range from {
			r := neutron.Rule{Direction: "ingress", EtherType: string(cloud.FamilyOf(p.Addr())), Protocol: strings.ToLower(protocol), Min: int(port), Max: int(port), Prefix: p.String()}
			rules[r.Key()] = r
		}
	}
	for _, p := range d.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		add(string(p.Protocol), p.NodePort, clients)
		if clients == nil || monitored {
			add(string(p.Protocol), p.NodePort, unheld)
		}
	}
	if h := d.Spec.HealthCheck; h != nil {
		add("tcp", h.Port, inside)
	}
	return slices.SortedFunc(maps.Values(rules), func(a, b neutron.Rule) int { return cmp.Compare(a.Key(), b.Key()) })
}

// openRules finds or makes the group and its missing rules, and notes those that are too many. Rules that
// Neutron gave the new group, which let everything out, are too many as well: groups add up, and what a
// Node may send is not ours to open.
func (r *reconciliation) openRules(ctx context.Context, f *firewall) error {
	all, err := r.findGroups(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		description := fmt.Sprintf("Security Group for %s/%s Service LoadBalancer in cluster %s", r.ref.Namespace, r.ref.Name, r.ref.Cluster.Name)
		made, err := r.groups().Create(ctx, groupName(r.ref), plan.Cut(description))
		if err != nil {
			return err
		}
		all = append(all, *made)
	}
	group := all[0] // of several, which a create whose answer was lost leaves, always the same
	missing := lacking(f.rules, group.Rules)
	f.group, f.surplus = group.ID, lacking(group.Rules, f.rules)
	if len(missing) == 0 {
		return nil
	}
	if r.desired.Spec.Verify {
		r.repaired = append(r.repaired, fmt.Sprintf("create %d rules of security group %s", len(missing), group.Name))
	}
	return r.groups().AddRules(ctx, group.ID, missing)
}

// lacking are the rules that others lack.
func lacking(rules, others []neutron.Rule) []neutron.Rule {
	there := map[string]bool{}
	for _, o := range others {
		there[o.Key()] = true
	}
	return slices.DeleteFunc(slices.Clone(rules), func(r neutron.Rule) bool { return there[r.Key()] })
}

// groupPrefix begins the name of every security group made for a Service.
const groupPrefix = "lb-sg-"

// groupName is the name of the Service's security group. It holds the Service's UID, so
// that it cannot be another cluster's.
func groupName(ref cloud.LoadBalancerRef) string {
	return plan.Cut(groupPrefix + ref.UID + "-" + ref.Namespace + "-" + ref.Name)
}

// findGroups are the groups of the Service's name but for one that carries another cluster's tag, which is
// not ours all the same.
func (r *reconciliation) findGroups(ctx context.Context) ([]neutron.SecurityGroup, error) {
	all, err := r.groups().Named(ctx, groupName(r.ref))
	return slices.DeleteFunc(all, func(g neutron.SecurityGroup) bool { return r.names.IsForeign(g.Tags) }), err
}

// deleteFirewall takes the Service's security group off all ports and deletes it. Where groups are not
// managed, it may have one from the time when they were.
func (r *reconciliation) deleteFirewall(ctx context.Context) error {
	if r.ref.UID == "" {
		return nil
	}
	managed := r.cfg.LoadBalancer.ManageSecurityGroups
	if !managed {
		if has, err := r.mayHaveGroup(ctx); err != nil || !has {
			return err
		}
	}
	r.firewalls.Forget(r.ref.UID)
	all, err := r.findGroups(ctx)
	if err != nil {
		return err
	}
	for _, g := range all {
		if err := r.groups().Remove(ctx, r.ref, g.ID); err != nil {
			return err
		}
		err := r.groups().Delete(ctx, g)
		if cloud.KindOf(err) == cloud.KindConflict { // somebody has given it to a port meanwhile
			err = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: r.waits.retry, Err: err}
		}
		if err != nil {
			return err
		}
	}
	if !managed {
		r.noGroup.Put(r.ref.UID, true, r.now(), r.now().Add(processTTL))
	}
	return nil
}

// mayHaveGroup reports whether the Service, while groups are not managed, has one from the time when they
// were: not one that is new or has lost it, nor one whose group there was not when that was first asked.
func (r *reconciliation) mayHaveGroup(ctx context.Context) (bool, error) {
	if none, _ := r.noGroup.Get(r.ref.UID, r.now()); none {
		return false, nil
	}
	names, err := r.formerGroups.Read(r.octavia.Scope(), r.now, processTTL, func() (map[string]bool, error) {
		names, err := r.groups().Names(ctx)
		maps.DeleteFunc(names, func(name string, _ bool) bool { return !strings.HasPrefix(name, groupPrefix) })
		return names, err
	})
	return names[groupName(r.ref)], err
}
