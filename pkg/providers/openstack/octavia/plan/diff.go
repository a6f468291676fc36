package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Action is one kind of change to a load balancer's children: one API call.
type Action string

// The actions.
const (
	CreateListener Action = "create listener"
	UpdateListener Action = "update listener"
	DeleteListener Action = "delete listener"
	CreatePool     Action = "create pool"
	UpdatePool     Action = "update pool"
	// TouchPool updates a pool without changing it: Octavia may leave the children of a
	// fully populated create in PENDING_CREATE for ever while the load balancer is ACTIVE,
	// and then refuses changes of their members. An update brings the pool to ACTIVE. It is
	// made when the pool is to be changed, see also firstTouches.
	TouchPool     Action = "touch pool"
	DeletePool    Action = "delete pool"
	SetMembers    Action = "set members"
	CreateMonitor Action = "create monitor"
	UpdateMonitor Action = "update monitor"
	DeleteMonitor Action = "delete monitor"
)

// Change is one change. Its nodes are those of the tree that results; IDs that an earlier
// change makes are filled in when it is done.
type Change struct {
	Action   Action
	Listener *Listener
	Pool     *Pool
}

// String describes the change for logs and golden tests.
func (c Change) String() string {
	switch c.Action {
	case CreateListener, UpdateListener, DeleteListener:
		return fmt.Sprintf("%s %s %s/%d", c.Action, c.Listener.Name, c.Listener.Protocol, c.Listener.Port)
	case SetMembers:
		return fmt.Sprintf("%s of %s: %d", c.Action, c.Pool.Name, len(c.Pool.Members))
	default:
		return fmt.Sprintf("%s %s", c.Action, c.Pool.Name)
	}
}

// Role is what a load balancer is to a Service.
type Role int

const (
	// Tenant uses a load balancer that was made for another Service, or by a user.
	Tenant Role = iota
	// Owner is the Service that the load balancer was made for.
	Owner
)

// Observed is a load balancer as it was read.
type Observed struct {
	LoadBalancer *LoadBalancer
	Tree         *Tree
	// Newborn says that it may not have served yet.
	Newborn bool
}

// IsOurs reports whether a listener belongs to the Service: it carries its tag, or has no
// tag at all, as controllers left it that knew none, but the Service's name, on a load
// balancer that was made for it.
func (n Names) IsOurs(l *Listener, role Role) bool {
	if n.IsForeign(l.Tags) {
		return false
	}
	return slices.Contains(l.Tags, n.LB) || role == Owner && len(l.Tags) == 0 && n.isListener(l.Name)
}

// Plan compares what is with what the Service wants and returns the changes, in order, and the tree that
// they result in, whose nodes they are of. What is observed is not changed. The error is KindConflict
// when somebody else's listener is in the way.
func Plan(observed Observed, desired *Desired, role Role) ([]Change, *Tree, error) {
	lb := observed.LoadBalancer
	d := &treeDiff{next: observed.Tree.Clone(), names: desired.Names, role: role, ovn: lb.Provider == config.ProviderOVN}
	if desired.Spec.Frozen {
		d.followNodes(desired)
	} else if err := d.all(desired.Tree); err != nil {
		return nil, nil, &cloud.Error{Kind: cloud.KindOf(err), Op: "load balancer " + lb.ID, Err: err}
	} else if d.ovn {
		d.changes = ovnOrder(observed.Tree, d.next, d.changes, d.names)
	}
	if observed.Newborn {
		d.changes = firstTouches(lb, d.next, d.changes)
	}
	return d.changes, d.next, nil
}

type treeDiff struct {
	next    *Tree
	names   Names
	role    Role
	ovn     bool
	changes []Change
}

func (d *treeDiff) all(want *Tree) error {
	wanted := map[ListenerKey]bool{}
	for _, w := range want.Listeners {
		wanted[w.Key()] = true
	}
	for _, l := range slices.Clone(d.next.Listeners) {
		switch {
		case !d.names.IsOurs(l, d.role):
			if wanted[l.Key()] {
				return cloud.Errorf(cloud.KindConflict, "port %d/%s is taken by listener %s (%q), which is not this Service's",
					l.Port, l.Key().transport, l.ID, l.Name)
			}
		case !wanted[l.Key()]:
			d.add(DeleteListener, l, nil)
			d.next.Listeners = slices.DeleteFunc(d.next.Listeners, func(x *Listener) bool { return x == l })
			d.dropPool(l.Pool)
		}
	}
	d.removeOrphans(want)
	for _, w := range want.Listeners {
		if err := d.listener(w); err != nil {
			return err
		}
	}
	return nil
}

func (d *treeDiff) add(action Action, l *Listener, p *Pool) {
	d.changes = append(d.changes, Change{Action: action, Listener: l, Pool: p})
}

// removePool deletes a pool; Octavia deletes its members and monitor with it.
func (d *treeDiff) removePool(p *Pool) {
	d.add(DeletePool, nil, p)
	d.next.Pools = slices.DeleteFunc(d.next.Pools, func(x *Pool) bool { return x == p })
}

// removeOrphans deletes pools of ours that nothing uses: what a crash between two calls
// left. One that a wanted listener can take is kept for it.
func (d *treeDiff) removeOrphans(want *Tree) {
	for _, p := range slices.Clone(d.next.Pools) {
		// A name that was cut may have lost the end that tells Services apart.
		if p.Used || !d.names.isPool(p.Name) || len(p.Name) >= maxName {
			continue
		}
		if !slices.ContainsFunc(want.Listeners, func(w *Listener) bool { return w.Pool.Name == p.Name && w.Pool.Protocol == p.Protocol }) {
			d.removePool(p)
		}
	}
}

func (d *treeDiff) listener(w *Listener) error {
	i := slices.IndexFunc(d.next.Listeners, func(l *Listener) bool { return l.Key() == w.Key() })
	if i < 0 {
		l := *w
		l.Pool = nil
		d.next.Listeners = append(d.next.Listeners, &l)
		d.add(CreateListener, &l, nil)
		d.attachPool(&l, w.Pool)
		return nil
	}
	l := d.next.Listeners[i]
	if l.Protocol != w.Protocol {
		d.replaceListener(i, w)
		return nil
	}
	if !listenerMatches(l, w) {
		merged := *w
		merged.ID, merged.Name, merged.Pool, merged.Headers = l.ID, l.Name, l.Pool, l.Headers
		// The tag of the Service makes an untagged listener ours on a shared load balancer
		// too; the owner's is not added, so that taking over changes nothing.
		merged.Tags = marks.Add(l.Tags, d.names.LB)
		*l = merged
		d.add(UpdateListener, l, nil)
	}
	switch old := l.Pool; {
	case old == nil:
		d.attachPool(l, w.Pool)
	case old.Protocol == w.Pool.Protocol:
		d.pool(old, d.asFound(l, w.Pool))
	case !d.names.isPool(old.Name): // a pool's protocol cannot change, and a listener has one default pool
		return cloud.Errorf(cloud.KindConflict, "listener %s sends to pool %s (%q) of protocol %s, which is not this Service's: remove it from the listener",
			l.ID, old.ID, old.Name, old.Protocol)
	default:
		l.Pool = d.freePool(w.Pool)
		d.add(UpdateListener, l, nil)
		d.dropPool(old)
	}
	return nil
}

// replaceListener makes the i-th listener anew: its protocol cannot change. The port is
// closed between two calls only: the new pool is ready before, the old one goes after.
func (d *treeDiff) replaceListener(i int, w *Listener) {
	old, l := d.next.Listeners[i], *w
	if p := old.Pool; p != nil && p.Protocol == w.Pool.Protocol && d.names.isPool(p.Name) {
		l.Pool = p
		d.pool(p, w.Pool)
	} else {
		l.Pool = d.freePool(w.Pool)
	}
	d.next.Listeners[i] = &l
	d.add(DeleteListener, old, nil)
	d.add(CreateListener, &l, nil)
	d.dropPool(old.Pool)
}

// dropPool removes a listener's pool if it has one of ours that no other listener uses.
func (d *treeDiff) dropPool(p *Pool) {
	if p != nil && d.names.isPool(p.Name) && !slices.ContainsFunc(d.next.Listeners, func(x *Listener) bool { return x.Pool == p }) {
		d.removePool(p)
	}
}

// poolFor is a pool of ours that no listener uses and that can be w or, if there is none, a new one: made
// is true, and it is made with l, if that is not nil.
func (d *treeDiff) poolFor(l *Listener, w *Pool) (p *Pool, made bool) {
	i := slices.IndexFunc(d.next.Pools, func(p *Pool) bool {
		return !p.Used && p.Name == w.Name && p.Protocol == w.Protocol && d.names.isPool(p.Name)
	})
	if i >= 0 {
		d.next.Pools[i].Used = true
		return d.next.Pools[i], false
	}
	p = &Pool{Name: w.Name, Protocol: w.Protocol, Method: w.Method, ByClientIP: w.ByClientIP, Used: true, Status: StateActive}
	d.next.Pools = append(d.next.Pools, p)
	d.add(CreatePool, l, p)
	return p, true
}

// asFound is the pool that a listener shall have, without a monitor that nobody asks for where
// openstack-cloud-controller-manager made the listener and gave it none: taking over changes nothing, and what has
// answered no health check until now may not be let to.
func (d *treeDiff) asFound(l *Listener, w *Pool) *Pool {
	if !w.Implied || l.Pool.Monitor != nil || slices.Contains(l.Tags, d.names.OwnerTag) {
		return w
	}
	bare := *w
	bare.Monitor, bare.Members = nil, slices.Clone(w.Members)
	for i := range bare.Members {
		bare.Members[i].MonitorPort = 0
	}
	return &bare
}

// freePool makes a pool with members and monitor that a listener is given afterwards.
func (d *treeDiff) freePool(w *Pool) *Pool {
	p, _ := d.poolFor(nil, w)
	d.pool(p, w)
	return p
}

// attachPool gives a listener without a pool one: an orphan of ours or a new one.
func (d *treeDiff) attachPool(l *Listener, w *Pool) {
	p, made := d.poolFor(l, w)
	if last := len(d.changes) - 1; !made && (last < 0 || d.changes[last].Listener != l) { // a new listener is made with it
		d.add(UpdateListener, l, nil)
	}
	l.Pool = p
	d.pool(p, w)
}

func (d *treeDiff) pool(p, w *Pool) {
	members, same := d.mergeMembers(p, w)
	switch {
	case p.Method != w.Method && !keeps(p, w) || p.ByClientIP != w.ByClientIP:
		if p.ByClientIP = w.ByClientIP; !keeps(p, w) {
			p.Method = w.Method
		}
		p.Status = StateActive
		d.add(UpdatePool, nil, p)
	case p.Status == StatePendingCreate && same && d.monitorMatches(p.Monitor, w.Monitor):
		// it serves as it is
	case p.Status != StateActive:
		p.Status = StateActive
		d.add(TouchPool, nil, p)
	}
	if !same {
		p.Members = members
		d.add(SetMembers, nil, p)
	}
	d.monitor(p, w.Monitor)
}

// keeps reports whether a pool may keep the algorithm that it has, if that is another one.
func keeps(p, w *Pool) bool { return w.KeepMethod == anyMethod || w.KeepMethod == p.Method }

// monitorMatches reports whether a monitor needs no change.
func (d *treeDiff) monitorMatches(have, want *Monitor) bool {
	switch {
	case d.ovn && isGhost(have):
		return true
	case have == nil || want == nil:
		return have == want
	}
	m := *want
	m.ID, m.Name, m.Status = have.ID, have.Name, have.Status
	return m == *have
}

func (d *treeDiff) monitor(p *Pool, w *Monitor) {
	have := p.Monitor
	if d.monitorMatches(have, w) {
		return
	}
	if have != nil && (w == nil || have.Type != w.Type) { // a monitor's type cannot change
		d.add(DeleteMonitor, nil, &Pool{Name: p.Name, ID: p.ID, Monitor: have})
		p.Monitor, have = nil, nil
	}
	if w == nil {
		return
	}
	m := *w
	p.Monitor = &m
	if have == nil {
		d.add(CreateMonitor, nil, p)
		return
	}
	m.ID, m.Name, m.Status = have.ID, have.Name, have.Status
	d.add(UpdateMonitor, nil, p)
}

// listenerMatches compares what can change of a listener; names are not wishes.
func listenerMatches(have, want *Listener) bool {
	if want.Timeouts != nil && (have.Timeouts == nil || *have.Timeouts != *want.Timeouts) {
		return false
	}
	return have.Connections == want.Connections &&
		have.TLSRef == want.TLSRef &&
		have.ForwardedFor == want.ForwardedFor &&
		slices.Equal(have.AllowedCIDRs, want.AllowedCIDRs)
}

// mergeMembers returns the members wanted, with what is kept of those that exist, and
// whether that is what there is already. Monitor ports mean nothing without a monitor: they are kept, as
// other controllers leave them when they take it away. Another subnet is no reason to set members: the
// existing manager gives them one by where they come from, and what it has made is to stay. Octavia (Zed)
// makes of a member of provider ovn whose subnet changes a new one and an old one of the same ID, and so
// loses it: it keeps its subnet.
func (d *treeDiff) mergeMembers(have, want *Pool) (merged []Member, same bool) {
	byEndpoint := make(map[netip.AddrPort]Member, len(have.Members))
	for _, m := range have.Members {
		byEndpoint[m.Endpoint()] = m
	}
	same = len(have.Members) == len(want.Members)
	for _, w := range want.Members {
		h, ok := byEndpoint[w.Endpoint()]
		if have.Monitor == nil && want.Monitor == nil {
			w.MonitorPort = h.MonitorPort
		}
		same = same && ok && h.Name == w.Name && h.MonitorPort == w.MonitorPort
		if ok {
			h.ClearMonitorPort = h.MonitorPort != 0 && w.MonitorPort == 0
			h.Name, h.MonitorPort = w.Name, w.MonitorPort
			if !d.ovn {
				h.SubnetID = cmp.Or(w.SubnetID, h.SubnetID)
			}
			w = h
		}
		merged = append(merged, w)
	}
	SortMembers(merged)
	return merged, same
}

// maxFirstTouches is how many pools a new load balancer's first operation brings to ACTIVE.
// One makes it serve on all ports; each is a call and a wait before its address is published.
// The others are touched when they are changed first.
const maxFirstTouches = 2

// firstTouches are the changes of a new load balancer, whose children Octavia may have left in
// PENDING_CREATE. Zed (worker v2 with the jobboard off, its default) then has not told the
// amphora of any of them. Updating one pool tells it of all; members outside of the VIP's
// subnet are not even reached before the members of one pool are set.
func firstTouches(lb *LoadBalancer, next *Tree, changes []Change) []Change {
	if slices.ContainsFunc(next.Pools, func(p *Pool) bool { return p.ID != "" && p.Status != StatePendingCreate }) {
		return changes // the amphora has been told
	}
	outside := func(m Member) bool { return m.SubnetID != "" && m.SubnetID != lb.VIPSubnetID }
	var first []Change
	for _, p := range next.Pools {
		if p.ID == "" || len(first) >= maxFirstTouches {
			continue
		}
		p.Status = StateActive
		first = append(first, Change{Action: TouchPool, Pool: p})
		if len(first) == 1 && slices.ContainsFunc(p.Members, outside) {
			first = append(first, Change{Action: SetMembers, Pool: p})
		}
	}
	return append(first, changes...)
}

// A frozen spec is of a Service whose wish is not valid as a whole. What it has stays as it is, but
// for the members of its pools, which follow the Nodes: a Node that goes must not keep its traffic,
// whatever an annotation says.

// followNodes brings the Nodes into the pools of the Service's listeners, at the Service's node port or, where
// it has no such port any more, the one that the members have. No pool is emptied.
func (d *treeDiff) followNodes(w *Desired) {
	first, _ := family.Members(w.Spec.Members, w.IsIPv6())
	second, _ := family.Members(w.Spec.Members, !w.IsIPv6())
	for _, l := range d.next.Listeners {
		p := l.Pool
		if !d.names.IsOurs(l, d.role) || p == nil || !d.names.isPool(p.Name) {
			continue
		}
		want, port, check, nodes := *p, 0, 0, first
		if len(p.Members) > 0 {
			port, check = p.Members[0].Port, p.Members[0].MonitorPort
		}
		if i := slices.IndexFunc(w.Spec.Ports, func(sp cloud.LoadBalancerPort) bool { return keyOf(sp) == l.Key() && sp.NodePort > 0 }); i >= 0 {
			port = int(w.Spec.Ports[i].NodePort)
		}
		if w.Spec.HealthCheck != nil && p.Monitor != nil && p.Monitor.Type == MonitorHTTP {
			check = int(w.Spec.HealthCheck.Port)
		}
		if w.Second && (d.ovn || l.Key().transport != ProtoTCP) {
			nodes = slices.Concat(first, second)
		}
		want.Members = w.members(nodes, port, check)
		if len(w.Spec.Members) == 0 {
			want.Members = w.stillNodes(p.Members)
		}
		if port > 0 && len(want.Members) > 0 {
			d.pool(p, &want)
		}
	}
}

// stillNodes are those of members that are Nodes: which of these the Service selects is not known.
func (svc *Service) stillNodes(members []Member) []Member {
	nodes := map[netip.Addr]bool{}
	for _, c := range svc.Spec.Candidates {
		for _, a := range c.Addresses {
			nodes[a] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !nodes[m.Endpoint().Addr()] })
}
