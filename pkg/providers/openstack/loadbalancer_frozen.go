package openstack

import (
	"context"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// A frozen spec is of a Service whose wish is not valid as a whole. What it has stays as it is, but
// for the members of its pools, which follow the Nodes: a Node that goes must not keep its traffic,
// whatever an annotation says.

// isKnownAs reports whether the Service shares a load balancer beyond doubt: it carries its tag, and our
// cluster's mark, or the Service names it by its ID.
func (w *lbWishes) isKnownAs(lb *octaviaLB) bool {
	return slices.Contains(lb.Tags, w.names.lb) && (slices.Contains(lb.Tags, w.names.owner) || w.loadBalancerID == lb.ID)
}

// followNodes returns what brings the Nodes into the pools of the Service's listeners, and the tree
// that results. No pool is emptied.
func (w *lbWishes) followNodes(actual *lbTree, o lbOwnership) ([]lbChange, *lbTree) {
	d := &treeDiff{next: actual.clone(), ownership: o}
	b := &treeBuilder{w: w, ovn: o.ovn}
	first, second := b.members(w.isIPv6()), b.members(!w.isIPv6())
	for _, l := range d.next.Listeners {
		p := l.Pool
		if !o.isOurs(l) || p == nil || !o.names.isPool(p.Name) {
			continue
		}
		want := *p
		want.Members = nil
		port, check := w.portOf(l, p), w.checkOf(p)
		add := func(members []cloud.LoadBalancerMember, ipv6 bool) {
			for _, m := range members {
				addr, _ := memberAddress(m, ipv6)
				want.Members = append(want.Members, lbMember{Name: w.memberName(m.Node.NodeName, addr, int32(port)), Address: addr.String(), Port: port, MonitorPort: check, SubnetID: w.memberSubnetFor(ipv6)})
			}
		}
		add(first, w.isIPv6())
		if w.second && (o.ovn || l.key().transport != protoTCP) {
			add(second, !w.isIPv6())
		}
		if len(w.spec.Members) == 0 {
			want.Members = w.stillNodes(p.Members)
		}
		if sortMembers(want.Members); port > 0 && len(want.Members) > 0 {
			d.pool(p, &want)
		}
	}
	return d.changes, d.next
}

// stillNodes are those of members that are Nodes: which of these the Service selects is not known.
func (w *lbWishes) stillNodes(members []lbMember) []lbMember {
	nodes := map[netip.Addr]bool{}
	for _, c := range w.spec.Candidates {
		for _, a := range c.Addresses {
			nodes[a] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(members), func(m lbMember) bool { return !nodes[m.endpoint().Addr()] })
}

// portOf is the node port of a listener: the Service's or, where it has no such port any more, the
// one that the members have.
func (w *lbWishes) portOf(l *lbListener, p *lbPool) int {
	for _, port := range w.spec.Ports {
		if (&lbListener{Protocol: string(port.Protocol), Port: int(port.Port)}).key() == l.key() && port.NodePort > 0 {
			return int(port.NodePort)
		}
	}
	for _, m := range p.Members {
		return m.Port
	}
	return 0
}

// checkOf is where the members of a pool are checked, 0 for their port.
func (w *lbWishes) checkOf(p *lbPool) int {
	if w.spec.HealthCheck != nil && p.Monitor != nil && p.Monitor.Type == monitorHTTP {
		return int(w.spec.HealthCheck.Port)
	}
	for _, m := range p.Members {
		return m.MonitorPort
	}
	return 0
}

// openFrozenGroup gives the Service's security group, whose rules stay as they are, to the members.
func (o *lbOperation) openFrozenGroup(ctx context.Context, w *lbWishes) (*groupWork, error) {
	if !w.cfg.ManageSecurityGroups || len(w.spec.Members) == 0 {
		return nil, nil
	}
	all, err := o.findGroups(ctx, w.spec.LoadBalancerRef)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	o.lb.groups.forget(w.spec.UID)
	work := &groupWork{uid: w.spec.UID, state: groupState{id: all[0].ID, members: groupMembers(w)}}
	return work, o.openPorts(ctx, w, work, nil)
}
