package registration

import "time"

// SetPace makes k act faster than it should in a cluster.
func (k *Keeper) SetPace(look, spread, standDown, grace, refill time.Duration, burst int) {
	k.pace = pace{look: look, spread: spread, standDown: standDown, grace: grace, refill: refill, burst: burst}
}

// SetPatience sets how long readiness waits.
func (k *Keeper) SetPatience(d time.Duration) { k.pace.patience = d }

// Rule is what errors say RBAC must allow.
const Rule = rule
