package registration

import "time"

// SetPace makes k act faster than it should in a cluster.
func (k *Keeper) SetPace(look, retry, patience, refill time.Duration, burst int) {
	k.pace = pace{look: look, retry: retry, patience: patience, refill: refill, burst: burst}
}

// Rule is what errors say RBAC must allow.
const Rule = rule
