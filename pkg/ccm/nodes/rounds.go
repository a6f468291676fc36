package nodes

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
)

const (
	// roundMax is the greatest age that Rounds accepts, however long a round takes.
	roundMax = time.Minute
	// manyNodes in a round are a cluster that starts or a zone that is down: then answers as
	// old as instancecache.MetadataMaxAge do. With --kube-api-qps=20 500 nodes take 50 s to initialize, not ready
	// meanwhile, and would cost a read of all every period.
	manyNodes = 50
)

// Rounds gives the maxAge for a controller that goes through its nodes round after round,
// with a pause of at least one period between rounds, as the framework's node lifecycle
// controller does: what was read since the round began is fresh enough for all of it.
//
// A constant age (LifecycleMaxAge) does for rounds shorter than the period. But with 500
// nodes that get their taints in a round, it takes 25 s with --kube-api-qps=20, which would cost a
// batch each period all the same.
type Rounds struct {
	clock clock.PassiveClock
	least time.Duration

	mu    sync.Mutex
	seen  map[cloud.InstanceRef]struct{}
	last  int // nodes in the round before
	began time.Time
}

// LifecycleMaxAge is the age of answers with which one cycle of the node lifecycle
// controller shares one batch and the next cycle gets its own: just under the period that
// lies between the end of a cycle and the start of the next.
func LifecycleMaxAge(nodeMonitorPeriod time.Duration) time.Duration {
	return nodeMonitorPeriod * 9 / 10
}

// NewRounds makes Rounds for a controller with that period; c may be nil for the real clock.
func NewRounds(period time.Duration, c clock.PassiveClock) *Rounds {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Rounds{clock: c, least: LifecycleMaxAge(period), seen: map[cloud.InstanceRef]struct{}{}}
}

// First returns the maxAge for the question with which the controller turns to a node. The
// same node a second time begins a new round.
func (r *Rounds) First(ref cloud.InstanceRef) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.seen[ref]; again || r.began.IsZero() {
		r.last = len(r.seen)
		clear(r.seen)
		r.began = r.clock.Now()
	}
	r.seen[ref] = struct{}{}
	return r.age()
}

// Further returns the maxAge for further questions about a node in the same round.
func (r *Rounds) Further() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.age()
}

func (r *Rounds) age() time.Duration {
	if r.began.IsZero() {
		return r.least
	}
	least := r.least
	if max(r.last, len(r.seen)) > manyNodes {
		least = max(least, instancecache.MetadataMaxAge)
	}
	return max(least, min(r.clock.Since(r.began)+least, roundMax))
}
