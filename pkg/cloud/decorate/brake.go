package decorate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// heldFor is how long a Node that nobody asks about any more counts as held.
	heldFor = 2 * time.Minute
	// releaseEvery is how often the operator's word is looked up while something is held.
	releaseEvery = 5 * time.Second
	// probeEvery is how often one held "not found" is read directly all the same: lists that
	// lack servers are found out by it, and it costs one call a cycle.
	probeEvery = 5 * time.Second
)

// BrakeOptions say when "not found" is believed of one Node and not of many.
type BrakeOptions struct {
	// Nodes lists every Node of the cluster that is this cloud's. Required.
	Nodes *Peers
	// Count and Percent are the limit: as many Nodes, or that share of Nodes, whichever is
	// more, may lack their instances at a time.
	Count, Percent int
	// Settle is how long a loss beyond the limit must last, while other instances of the
	// cluster are seen at the same place, until it is believed; 0 means that only Released counts.
	Settle time.Duration
	// Released reports whether an operator lets Nodes go, and what is wrong with how it was
	// said. It is asked only while something is held, every few seconds. May be nil.
	Released func(ctx context.Context) (bool, error)
}

// errHeld is what a held "not found" becomes.
var errHeld = errors.New("not found, but the node is kept")

// IsHeld reports whether err is a "not found" that the brake holds back.
func IsHeld(err error) bool { return errors.Is(err, errHeld) }

// Hold says what the brake holds back.
type Hold struct {
	// Nodes are the names of the Nodes whose instances were not found, in order.
	Nodes []string
	// Reason says why that is not believed.
	Reason string
	// Since is when the first of them was held.
	Since time.Time
}

// brake holds back "not found" where it looks like credentials or a cloud gone wrong and not
// like instances that are gone. Nothing of it outlives the process: a new one begins with
// knowing no scope, which is the careful side.
//
// An instance counts as gone only in a scope that has shown an instance of the cluster to
// this process (see scopes): the credentials of another project or region answer "not found"
// in the very words that the right ones have for what is gone. And where more Nodes than the
// limit lack their instances, only after Settle during which others were seen in that scope,
// or when an operator says so.
type brake struct {
	clock    clock.Clock
	provider string
	metrics  *Metrics
	opts     *BrakeOptions // nil: only scopes are checked

	mu       sync.Mutex
	scopes   scopes
	held     map[string]time.Time // Node → when it was held last
	since    time.Time            // of the oldest
	reason   string
	over     time.Time // since when the limit is exceeded without a gap
	overLast time.Time
	probed   time.Time
	asked    time.Time // the operator
	released bool
	wrong    error // with how it was said
}

func newBrake(c *caller) *brake {
	return &brake{clock: c.clock, provider: c.provider, metrics: c.metrics, held: map[string]time.Time{}}
}

// census is what is known about the cluster's instances at a time.
type census struct {
	present map[string]int // by scope
	missing int            // not in the last batch
	unknown int            // the cloud gave no answer
	// elders are those among missing and unknown whose provider IDs are older than this process,
	// eldersSeen those among present.
	elders, eldersSeen int
}

func (c census) seen() int {
	n := 0
	for _, k := range c.present {
		n += k
	}
	return n
}

// witnesses is how many were seen in scope, or anywhere where the scope is not known.
func (c census) witnesses(scope string) int {
	if scope == "" {
		return c.seen()
	}
	return c.present[scope]
}

// limit is how many Nodes may lack their instances.
func (o *BrakeOptions) limit(c census) int {
	return max(o.Count, (c.seen()+c.missing+c.unknown)*o.Percent/100)
}

// doubt says why "not found" in scope is not believed; empty when it is. settled tells that
// the loss has lasted long enough to be believed if there are witnesses.
func (o *BrakeOptions) doubt(c census, scope string, settled bool) string {
	limit := o.limit(c)
	total := c.seen() + c.missing + c.unknown
	switch {
	case scope == "" && c.seen() == 0:
		return fmt.Sprintf("not one of the %d nodes has an instance", total)
	case c.missing+c.unknown <= limit:
		return ""
	case c.missing <= limit:
		return fmt.Sprintf("the instances of %d of %d nodes could not be read", c.unknown, total)
	case settled && c.witnesses(scope) > 0:
		return ""
	}
	return fmt.Sprintf("%d of %d nodes have no instance, more than the limit of %d", c.missing, total, limit)
}

// exceeds reports whether the loss is beyond the limit.
func (o *BrakeOptions) exceeds(c census) bool { return c.missing > o.limit(c) }

// check returns nil when "not found" about ref in scope may be believed, and otherwise why
// it is held back.
func (b *brake) check(ctx context.Context, ref cloud.InstanceRef, scope string, c census) error {
	b.mu.Lock()
	reason := b.doubt(ref, scope, c)
	b.mu.Unlock()
	if reason == "" {
		b.let(ref)
		return nil
	}
	released, wrong := b.operator(ctx)
	if released {
		klog.FromContext(ctx).V(2).Info("An operator lets this Node go", "node", ref.NodeName, "doubt", reason)
		b.let(ref)
		return nil
	}
	if wrong != nil {
		reason += "; " + wrong.Error()
	}
	b.hold(ref, reason)
	return cloud.Errorf(cloud.KindUnknown, "%w: %s", errHeld, reason)
}

// doubt is called with mu held.
func (b *brake) doubt(ref cloud.InstanceRef, scope string, c census) string {
	if scope != "" && !b.scopes.shown(scope, ref) {
		return "no instance of this cluster was seen in " + scope + " yet; check that the credentials and the region are the cluster's own"
	}
	if b.opts == nil {
		return ""
	}
	if ref.ProviderID == "" && !b.scopes.proven[scope] && c.strange() {
		return c.stranger()
	}
	now := b.clock.Now()
	settled := false
	if b.opts.exceeds(c) {
		if b.over.IsZero() || now.Sub(b.overLast) > heldFor {
			b.over = now
		}
		b.overLast = now
		settled = b.opts.Settle > 0 && now.Sub(b.over) >= b.opts.Settle
	} else {
		b.over = time.Time{}
	}
	return b.opts.doubt(c, scope, settled)
}

// operator returns whether an operator lets Nodes go, as of a few seconds ago.
func (b *brake) operator(ctx context.Context) (bool, error) {
	if b.opts == nil || b.opts.Released == nil {
		return false, nil
	}
	b.mu.Lock()
	now := b.clock.Now()
	if !b.asked.IsZero() && now.Sub(b.asked) < releaseEvery {
		defer b.mu.Unlock()
		return b.released, b.wrong
	}
	b.asked = now
	b.mu.Unlock()
	released, wrong := b.opts.Released(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released, b.wrong = released && wrong == nil, wrong
	return b.released, b.wrong
}

// probe reports whether a held "not found" may be read directly now.
func (b *brake) probe() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if !b.probed.IsZero() && now.Sub(b.probed) < probeEvery {
		return false
	}
	b.probed = now
	return true
}

func (b *brake) hold(ref cloud.InstanceRef, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if len(b.held) == 0 {
		b.since = now
	}
	b.held[cmp.Or(ref.NodeName, ref.ProviderID)] = now
	b.reason = reason
	b.measure()
}

// let ends the hold of one Node.
func (b *brake) let(ref cloud.InstanceRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := cmp.Or(ref.NodeName, ref.ProviderID)
	if _, ok := b.held[name]; ok {
		delete(b.held, name)
		b.measure()
	}
}

// saw records an instance that was found.
func (b *brake) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	b.mu.Lock()
	b.scopes.saw(ref, instance)
	b.mu.Unlock()
	b.let(ref)
}

// engaged reports whether anything is held.
func (b *brake) engaged() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held) > 0
}

// state drops what is not held any more and returns the rest, nil when there is none.
func (b *brake) state() *Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	maps.DeleteFunc(b.held, func(_ string, at time.Time) bool { return now.Sub(at) > heldFor })
	b.measure()
	if len(b.held) == 0 {
		return nil
	}
	return &Hold{Nodes: slices.Sorted(maps.Keys(b.held)), Reason: b.reason, Since: b.since}
}

// measure is called with mu held.
func (b *brake) measure() {
	on := 0.0
	if len(b.held) > 0 {
		on = 1
	}
	b.metrics.brake.WithLabelValues(b.provider).Set(on)
	b.metrics.held.WithLabelValues(b.provider).Set(float64(len(b.held)))
}
