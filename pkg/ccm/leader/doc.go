// Package leader is about the leases under which controllers run: the election's locks, the second one of a leader
// migration, which controllers that moves, and what must end before a lease is given up. It knows no controller.
package leader
