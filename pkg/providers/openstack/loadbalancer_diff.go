package openstack

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// lbAction is one kind of change to a load balancer's children: one API call.
type lbAction string

const (
	createListener lbAction = "create listener"
	updateListener lbAction = "update listener"
	deleteListener lbAction = "delete listener"
	createPool     lbAction = "create pool"
	updatePool     lbAction = "update pool"
	// touchPool updates a pool without changing it: Octavia may leave the children of a
	// fully populated create in PENDING_CREATE for ever while the load balancer is ACTIVE,
	// and then refuses changes of their members. An update brings the pool to ACTIVE. It is
	// made when the pool is to be changed, see also firstTouches.
	touchPool     lbAction = "touch pool"
	deletePool    lbAction = "delete pool"
	setMembers    lbAction = "set members"
	createMonitor lbAction = "create monitor"
	updateMonitor lbAction = "update monitor"
	deleteMonitor lbAction = "delete monitor"
)

// lbChange is one change. Its nodes are those of the tree that results; IDs that an earlier
// change makes are filled in when it is done.
type lbChange struct {
	action   lbAction
	listener *lbListener
	pool     *lbPool
}

// String describes the change for logs and golden tests.
func (c lbChange) String() string {
	switch c.action {
	case createListener, updateListener, deleteListener:
		return fmt.Sprintf("%s %s %s/%d", c.action, c.listener.Name, c.listener.Protocol, c.listener.Port)
	case setMembers:
		return fmt.Sprintf("%s of %s: %d", c.action, c.pool.Name, len(c.pool.Members))
	default:
		return fmt.Sprintf("%s %s", c.action, c.pool.Name)
	}
}

// lbOwnership says which nodes of a tree are the Service's.
type lbOwnership struct {
	names lbNames
	// owner is true for the Service that the load balancer was made for.
	owner bool
	// ovn is true for load balancers of provider ovn, see ovnOrder.
	ovn bool
}

// isOurs reports whether a listener belongs to the Service: it carries its tag, or has no
// tag at all, as controllers left it that knew none, but the Service's name, on a load
// balancer that was made for it.
func (o lbOwnership) isOurs(l *lbListener) bool {
	if o.names.isForeign(l.Tags) {
		return false
	}
	return slices.Contains(l.Tags, o.names.lb) || o.owner && len(l.Tags) == 0 && o.names.isListener(l.Name)
}

// diffTree compares what is with what the Service wants and returns the changes, in order,
// and the tree that they result in. actual is not changed. The error is KindConflict when
// somebody else's listener is in the way.
func diffTree(actual, want *lbTree, o lbOwnership) ([]lbChange, *lbTree, error) {
	d := &treeDiff{next: actual.clone(), ownership: o}
	wanted := map[listenerKey]bool{}
	for _, w := range want.Listeners {
		wanted[w.key()] = true
	}
	for _, l := range slices.Clone(d.next.Listeners) {
		switch {
		case !o.isOurs(l):
			if wanted[l.key()] {
				return nil, nil, cloud.Errorf(cloud.KindConflict, "port %d/%s is taken by listener %s (%q), which is not this Service's",
					l.Port, l.key().transport, l.ID, l.Name)
			}
		case !wanted[l.key()]:
			d.removeListener(l)
		}
	}
	d.removeOrphans(want)
	for _, w := range want.Listeners {
		if err := d.listener(w); err != nil {
			return nil, nil, err
		}
	}
	if o.ovn {
		return ovnOrder(actual, d.next, d.changes, o), d.next, nil
	}
	return d.changes, d.next, nil
}

type treeDiff struct {
	next      *lbTree
	ownership lbOwnership
	changes   []lbChange
}

func (d *treeDiff) add(action lbAction, l *lbListener, p *lbPool) {
	d.changes = append(d.changes, lbChange{action: action, listener: l, pool: p})
}

func (d *treeDiff) removeListener(l *lbListener) {
	d.add(deleteListener, l, nil)
	d.next.Listeners = slices.DeleteFunc(d.next.Listeners, func(x *lbListener) bool { return x == l })
	if p := l.Pool; p != nil && d.ownership.names.isPool(p.Name) {
		d.dropPool(p)
	}
}

// removePool deletes a pool; Octavia deletes its members and monitor with it.
func (d *treeDiff) removePool(p *lbPool) {
	d.add(deletePool, nil, p)
	d.next.Pools = slices.DeleteFunc(d.next.Pools, func(x *lbPool) bool { return x == p })
}

// removeOrphans deletes pools of ours that nothing uses: what a crash between two calls
// left. One that a wanted listener can take is kept for it.
func (d *treeDiff) removeOrphans(want *lbTree) {
	for _, p := range slices.Clone(d.next.Pools) {
		// A name that was cut may have lost the end that tells Services apart.
		if p.Used || !d.ownership.names.isPool(p.Name) || len(p.Name) >= maxName {
			continue
		}
		if !slices.ContainsFunc(want.Listeners, func(w *lbListener) bool { return w.Pool.Name == p.Name && w.Pool.Protocol == p.Protocol }) {
			d.removePool(p)
		}
	}
}

func (d *treeDiff) listener(w *lbListener) error {
	i := slices.IndexFunc(d.next.Listeners, func(l *lbListener) bool { return l.key() == w.key() })
	if i < 0 {
		l := *w
		l.Pool = nil
		d.next.Listeners = append(d.next.Listeners, &l)
		d.add(createListener, &l, nil)
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
		merged.Tags = withTags(l.Tags, d.ownership.names.lb)
		*l = merged
		d.add(updateListener, l, nil)
	}
	if l.Pool != nil && l.Pool.Protocol == w.Pool.Protocol {
		d.pool(l.Pool, d.asFound(l, w.Pool))
		return nil
	}
	old := l.Pool
	if old == nil {
		d.attachPool(l, w.Pool)
		return nil
	}
	// A pool's protocol cannot change, and a listener has one default pool.
	if !d.ownership.names.isPool(old.Name) {
		return cloud.Errorf(cloud.KindConflict, "listener %s sends to pool %s (%q) of protocol %s, which is not this Service's: remove it from the listener",
			l.ID, old.ID, old.Name, old.Protocol)
	}
	l.Pool = d.freePool(w.Pool)
	d.add(updateListener, l, nil)
	d.dropPool(old)
	return nil
}

// replaceListener makes the i-th listener anew: its protocol cannot change. The port is
// closed between two calls only: the new pool is ready before, the old one goes after.
func (d *treeDiff) replaceListener(i int, w *lbListener) {
	old, l := d.next.Listeners[i], *w
	if p := old.Pool; p != nil && p.Protocol == w.Pool.Protocol && d.ownership.names.isPool(p.Name) {
		l.Pool = p
		d.pool(p, w.Pool)
	} else {
		l.Pool = d.freePool(w.Pool)
	}
	d.next.Listeners[i] = &l
	d.add(deleteListener, old, nil)
	d.add(createListener, &l, nil)
	if old.Pool != nil && d.ownership.names.isPool(old.Pool.Name) {
		d.dropPool(old.Pool)
	}
}

// dropPool removes a pool unless another listener uses it.
func (d *treeDiff) dropPool(p *lbPool) {
	if !slices.ContainsFunc(d.next.Listeners, func(x *lbListener) bool { return x.Pool == p }) {
		d.removePool(p)
	}
}

// orphan is a pool of ours that no listener uses and that can be w; nil for none.
func (d *treeDiff) orphan(w *lbPool) *lbPool {
	i := slices.IndexFunc(d.next.Pools, func(p *lbPool) bool {
		return !p.Used && p.Name == w.Name && p.Protocol == w.Protocol && d.ownership.names.isPool(p.Name)
	})
	if i < 0 {
		return nil
	}
	d.next.Pools[i].Used = true
	return d.next.Pools[i]
}

func (d *treeDiff) newPool(w *lbPool) *lbPool {
	p := &lbPool{Name: w.Name, Protocol: w.Protocol, Method: w.Method, ByClientIP: w.ByClientIP, Used: true, Status: stateActive}
	d.next.Pools = append(d.next.Pools, p)
	return p
}

// asFound is the pool that a listener shall have, without a monitor that nobody asks for where
// openstack-cloud-controller-manager made the listener and gave it none: taking over changes nothing, and what has
// answered no health check until now may not be let to.
func (d *treeDiff) asFound(l *lbListener, w *lbPool) *lbPool {
	if !w.Implied || l.Pool.Monitor != nil || slices.Contains(l.Tags, d.ownership.names.owner) {
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
func (d *treeDiff) freePool(w *lbPool) *lbPool {
	p := d.orphan(w)
	if p == nil {
		p = d.newPool(w)
		d.add(createPool, nil, p)
	}
	d.pool(p, w)
	return p
}

// attachPool gives a listener without a pool one: an orphan of ours or a new one.
func (d *treeDiff) attachPool(l *lbListener, w *lbPool) {
	p := d.orphan(w)
	if p == nil {
		p = d.newPool(w)
		d.add(createPool, l, p)
	} else if last := len(d.changes) - 1; last < 0 || d.changes[last].listener != l { // a new listener is made with it
		d.add(updateListener, l, nil)
	}
	l.Pool = p
	d.pool(p, w)
}

func (d *treeDiff) pool(p, w *lbPool) {
	wanted := w.Members
	if p.Monitor == nil && w.Monitor == nil {
		wanted = withMonitorPorts(wanted, p.Members)
	}
	members, same := mergeMembers(p.Members, wanted, d.ownership.ovn)
	persistent := p.ByClientIP == w.ByClientIP
	switch {
	case p.Method != w.Method && !keeps(p, w) || !persistent:
		if p.ByClientIP = w.ByClientIP; !keeps(p, w) {
			p.Method = w.Method
		}
		p.Status = stateActive
		d.add(updatePool, nil, p)
	case p.Status == statePendingCreate && same && d.monitorMatches(p.Monitor, w.Monitor):
		// it serves as it is
	case p.Status != stateActive:
		p.Status = stateActive
		d.add(touchPool, nil, p)
	}
	if !same {
		p.Members = members
		d.add(setMembers, nil, p)
	}
	d.monitor(p, w.Monitor)
}

// keeps reports whether a pool may keep the algorithm that it has, if that is another one.
func keeps(p, w *lbPool) bool { return w.KeepMethod == anyMethod || w.KeepMethod == p.Method }

// monitorMatches reports whether a monitor needs no change.
func (d *treeDiff) monitorMatches(have, want *lbMonitor) bool {
	switch {
	case d.ownership.ovn && isGhost(have):
		return true
	case have == nil || want == nil:
		return have == want
	}
	m := *want
	m.ID, m.Name, m.Status = have.ID, have.Name, have.Status
	return m == *have
}

func (d *treeDiff) monitor(p *lbPool, w *lbMonitor) {
	have := p.Monitor
	switch {
	case have == nil && w == nil:
	case d.ownership.ovn && isGhost(have):
	case have == nil:
		m := *w
		p.Monitor = &m
		d.add(createMonitor, nil, p)
	case w == nil:
		d.add(deleteMonitor, nil, &lbPool{Name: p.Name, ID: p.ID, Monitor: have})
		p.Monitor = nil
	case have.Type != w.Type: // a monitor's type cannot change
		d.add(deleteMonitor, nil, &lbPool{Name: p.Name, ID: p.ID, Monitor: have})
		m := *w
		p.Monitor = &m
		d.add(createMonitor, nil, p)
	case !d.monitorMatches(have, w):
		m := *w
		m.ID, m.Name, m.Status = have.ID, have.Name, have.Status
		p.Monitor = &m
		d.add(updateMonitor, nil, p)
	}
}

// listenerMatches compares what can change of a listener; names are not wishes.
func listenerMatches(have, want *lbListener) bool {
	if want.Timeouts != nil && (have.Timeouts == nil || *have.Timeouts != *want.Timeouts) {
		return false
	}
	return have.Connections == want.Connections &&
		have.TLSRef == want.TLSRef &&
		have.ForwardedFor == want.ForwardedFor &&
		slices.Equal(have.AllowedCIDRs, want.AllowedCIDRs)
}

// withMonitorPorts are members with the monitor ports of those that exist, which mean nothing without a
// monitor: other controllers leave them when they take it away.
func withMonitorPorts(members, have []lbMember) []lbMember {
	ports := make(map[netip.AddrPort]int, len(have))
	for _, m := range have {
		ports[m.endpoint()] = m.MonitorPort
	}
	out := slices.Clone(members)
	for i := range out {
		out[i].MonitorPort = ports[out[i].endpoint()]
	}
	return out
}

// mergeMembers returns the members wanted, with what is kept of those that exist, and
// whether that is what there is already. Another subnet is no reason to set them: the existing
// manager gives members one by where they come from, and what it has made is to stay. Octavia (Zed) makes of a member of provider ovn
// whose subnet changes a new one and an old one of the same ID, and so loses it: it keeps
// its subnet.
func mergeMembers(have, want []lbMember, ovn bool) (merged []lbMember, same bool) {
	byEndpoint := make(map[any]lbMember, len(have))
	for _, m := range have {
		byEndpoint[m.endpoint()] = m
	}
	same = len(have) == len(want)
	for _, w := range want {
		h, ok := byEndpoint[w.endpoint()]
		if ok {
			if ovn {
				w.SubnetID = h.SubnetID
			}
			same = same && h.Name == w.Name && h.MonitorPort == w.MonitorPort
			h.ClearMonitorPort = h.MonitorPort != 0 && w.MonitorPort == 0
			h.Name, h.MonitorPort = w.Name, w.MonitorPort
			h.SubnetID = cmp.Or(w.SubnetID, h.SubnetID)
			w = h
		} else {
			same = false
		}
		merged = append(merged, w)
	}
	sortMembers(merged)
	return merged, same
}
