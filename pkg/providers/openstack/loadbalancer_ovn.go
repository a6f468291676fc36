package openstack

import "slices"

// isGhost reports whether a monitor of provider ovn exists in Octavia's database only: the
// provider (up to 3.0 at least) forgets monitors of a fully populated create. Deleting one
// leaves the load balancer in PENDING_UPDATE for ever, so it is left alone.
func isGhost(m *lbMonitor) bool { return m != nil && m.Status == "PENDING_CREATE" }

// ovnOrder puts the changes of a load balancer of provider ovn into an order that the
// provider survives. It (3.0, OpenStack Zed) fails, leaving the load balancer in
// PENDING_UPDATE for ever,
//
//   - when a listener is created while any pool has a monitor,
//   - when a pool is deleted before its monitor is.
//
// So monitors that could be in the way are deleted first, and made last.
func ovnOrder(actual, next *lbTree, changes []lbChange, o lbOwnership) []lbChange {
	creating := slices.ContainsFunc(changes, func(c lbChange) bool { return c.action == createListener })
	var first, middle, last []lbChange
	removed := map[string]bool{} // pools by ID
	remove := func(p *lbPool) {
		if p.Monitor != nil && !isGhost(p.Monitor) && !removed[p.ID] {
			removed[p.ID] = true
			first = append(first, lbChange{action: deleteMonitor, pool: p})
		}
	}
	for _, p := range actual.Pools {
		deleted := slices.ContainsFunc(changes, func(c lbChange) bool { return c.action == deletePool && c.pool.ID == p.ID })
		if deleted || creating && o.names.isPool(p.Name) {
			remove(p)
		}
	}
	for _, c := range changes {
		switch c.action {
		case deleteMonitor:
			remove(c.pool)
		case createMonitor, updateMonitor: // below
		default:
			middle = append(middle, c)
		}
	}
	for _, p := range next.Pools {
		changed := slices.IndexFunc(changes, func(c lbChange) bool {
			return c.pool == p && (c.action == createMonitor || c.action == updateMonitor)
		})
		switch {
		case p.Monitor == nil:
		case removed[p.ID] && p.ID != "":
			last = append(last, lbChange{action: createMonitor, pool: p})
		case changed >= 0:
			last = append(last, changes[changed])
		}
	}
	return slices.Concat(first, middle, last)
}
