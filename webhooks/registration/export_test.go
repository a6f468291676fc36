package registration

import "time"

// SetPace makes k act faster than it should in a cluster.
func (k *Keeper) SetPace(look, spread, standDown, refill time.Duration, burst int) {
	k.pace = pace{look: look, spread: spread, standDown: standDown, refill: refill, burst: burst}
}

// Rule is what errors say RBAC must allow.
const Rule = rule
