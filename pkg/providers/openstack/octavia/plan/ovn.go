package plan

import "slices"

// isGhost reports whether a monitor of provider ovn exists in Octavia's database only: the
// provider (up to 3.0 at least) forgets monitors of a fully populated create. Deleting one
// leaves the load balancer in PENDING_UPDATE for ever, so it is left alone.
func isGhost(m *Monitor) bool { return m != nil && m.Status == "PENDING_CREATE" }

// ovnOrder puts the changes of a load balancer of provider ovn into an order that the
// provider survives. It (3.0, OpenStack Zed) fails, leaving the load balancer in
// PENDING_UPDATE for ever,
//
//   - when a listener is created while any pool has a monitor,
//   - when a pool is deleted before its monitor is.
//
// So monitors that could be in the way are deleted first, and made last.
func ovnOrder(actual, next *Tree, changes []Change, names Names) []Change {
	creating := slices.ContainsFunc(changes, func(c Change) bool { return c.Action == CreateListener })
	var first, middle, last []Change
	removed := map[string]bool{} // pools by ID
	remove := func(p *Pool) {
		if p.Monitor != nil && !isGhost(p.Monitor) && !removed[p.ID] {
			removed[p.ID] = true
			first = append(first, Change{Action: DeleteMonitor, Pool: p})
		}
	}
	for _, p := range actual.Pools {
		deleted := slices.ContainsFunc(changes, func(c Change) bool { return c.Action == DeletePool && c.Pool.ID == p.ID })
		if deleted || creating && names.isPool(p.Name) {
			remove(p)
		}
	}
	for _, c := range changes {
		switch c.Action {
		case DeleteMonitor:
			remove(c.Pool)
		case CreateMonitor, UpdateMonitor: // below
		default:
			middle = append(middle, c)
		}
	}
	for _, p := range next.Pools {
		changed := slices.IndexFunc(changes, func(c Change) bool {
			return c.Pool == p && (c.Action == CreateMonitor || c.Action == UpdateMonitor)
		})
		switch {
		case p.Monitor == nil:
		case removed[p.ID] && p.ID != "":
			last = append(last, Change{Action: CreateMonitor, Pool: p})
		case changed >= 0:
			last = append(last, changes[changed])
		}
	}
	return slices.Concat(first, middle, last)
}
