package deletionguard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// heldFor is how long a Node that nobody asks about any more counts as held.
	heldFor = 2 * time.Minute
	// operatorEvery is how often the operator's word is looked up while something is held.
	operatorEvery = 5 * time.Second
	// probeEvery is how often one held "not found" is read directly all the same: lists that
	// lack servers are found out by it, and it costs one call a cycle.
	probeEvery = 5 * time.Second
	// maxNameMatches is how many instances found by name prove a scope after all.
	maxNameMatches = 10_000
)

// Hold says which Nodes are kept whose instances were not found, in the order of their names,
// and why of the last one that was asked about.
type Hold struct {
	Nodes   []string
	Verdict Verdict
}

// errHeld is what a held "not found" becomes.
var errHeld = errors.New("not found, but the node is kept")

// IsHeld reports whether err is a "not found" that a Guard holds.
func IsHeld(err error) bool { return errors.Is(err, errHeld) }

// Guard gathers the Input of Evaluate for one provider and publishes the verdicts.
type Guard struct {
	clock       clock.PassiveClock
	on, holding prometheus.Gauge
	limits      *Limits // nil: only scopes are checked
	readWord    func(context.Context) Operator

	mu       sync.Mutex
	evidence evidence
	beyond   map[string]span // by scope, of a loss beyond the limit while others are seen there

	held    map[string]time.Time // Node → when it was held last
	verdict Verdict              // about the Node held last

	probed   time.Time
	asked    time.Time // for the operator's word
	operator Operator
}

// span is a time without gaps longer than heldFor.
type span struct{ began, last time.Time }

// New makes a Guard that publishes in on whether something is held, and in holding how many
// Nodes. Until Configure only scopes are checked.
func New(c clock.PassiveClock, on, holding prometheus.Gauge) *Guard {
	return &Guard{clock: c, on: on, holding: holding, beyond: map[string]span{}, held: map[string]time.Time{}}
}

// Configure must be called before the first question. operator reads an operator's word; it is
// asked only while something is held, every few seconds, and may be nil.
func (g *Guard) Configure(l Limits, operator func(context.Context) Operator) {
	g.limits, g.readWord = &l, operator
}

// Check decides about a claim that the scope of that name makes about ref.
func (g *Guard) Check(ctx context.Context, claim Claim, ref cloud.InstanceRef, scope string, counts Counts) Verdict {
	in := g.gather(claim, ref, scope, counts)
	verdict := Evaluate(in)
	if !verdict.Allows() {
		in.Operator = g.askOperator(ctx)
		verdict = Evaluate(in)
	}
	if verdict.Reason == OperatorConfirmed {
		klog.FromContext(ctx).V(2).Info("An operator lets this Node go", "node", ref.NodeName, "doubt", verdict.Message)
	}
	if claim != NameFound {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.publish(ref, verdict)
	}
	return verdict
}

// Err is the error that a held "not found" becomes.
func (v Verdict) Err() error { return cloud.Errorf(cloud.KindUnknown, "%w: %s", errHeld, v.Message) }

// gather makes the Input, without the operator's word.
func (g *Guard) gather(claim Claim, ref cloud.InstanceRef, scope string, counts Counts) Input {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := Input{Claim: claim, Evidence: g.evidence.of(scope, ref), Scope: scope, Counts: counts, Limits: g.limits}
	if in.Limits != nil && claim != NameFound && in.Evidence != NoEvidence {
		in.Lasted = g.lasted(scope, counts.Missing > in.Limits.Of(counts) && counts.SeenHere > 0)
	}
	return in
}

// lasted begins, continues or ends the span of scope and returns how long it is. mu is held.
func (g *Guard) lasted(scope string, beyond bool) time.Duration {
	if !beyond {
		delete(g.beyond, scope)
		return 0
	}
	now, s := g.clock.Now(), g.beyond[scope]
	if now.Sub(s.last) > heldFor {
		s.began = now
	}
	s.last = now
	g.beyond[scope] = s
	return now.Sub(s.began)
}

// askOperator returns the operator's word, as of a few seconds ago.
func (g *Guard) askOperator(ctx context.Context) Operator {
	g.mu.Lock()
	now, last := g.clock.Now(), g.operator
	if g.readWord == nil || !g.asked.IsZero() && now.Sub(g.asked) < operatorEvery {
		g.mu.Unlock()
		return last
	}
	g.asked = now
	g.mu.Unlock()
	word := g.readWord(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.operator = word
	return word
}

// publish keeps a Node that is held, and lets go one that is not. mu is held.
func (g *Guard) publish(ref cloud.InstanceRef, verdict Verdict) {
	switch name := cmp.Or(ref.NodeName, ref.ProviderID); {
	case !verdict.Allows():
		g.held[name], g.verdict = g.clock.Now(), verdict
	case g.held[name].IsZero():
		return
	default:
		delete(g.held, name)
	}
	g.measure()
}

func (g *Guard) measure() {
	g.on.Set(float64(min(1, len(g.held))))
	g.holding.Set(float64(len(g.held)))
}

// Saw records an instance that was found.
func (g *Guard) Saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evidence.saw(ref, instance)
	g.publish(ref, Verdict{Reason: Allowed})
}

// Proven reports whether an existing provider ID has resolved in a scope. Counts for what another one
// claims by name are of reads no older than the claim: the credentials may be others since.
func (g *Guard) Proven(scope string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.evidence.proven[scope]
}

// Existing reports whether ref has a provider ID that is more than what this process found by
// the Node's name.
func (g *Guard) Existing(ref cloud.InstanceRef) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.evidence.existing(ref)
}

// Probe reports whether a held "not found" may be read directly now.
func (g *Guard) Probe() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if !g.probed.IsZero() && now.Sub(g.probed) < probeEvery {
		return false
	}
	g.probed = now
	return true
}

// Engaged reports whether anything is held.
func (g *Guard) Engaged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held) > 0
}

// Held drops what nobody asks about any more and returns what is held, nil when nothing is.
func (g *Guard) Held() *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	maps.DeleteFunc(g.held, func(_ string, at time.Time) bool { return now.Sub(at) > heldFor })
	g.measure()
	if len(g.held) == 0 {
		return nil
	}
	return &Hold{Nodes: slices.Sorted(maps.Keys(g.held)), Verdict: g.verdict}
}

// evidence remembers in which scopes instances of the cluster's Nodes were seen. At start the
// node controller asks about every Node, so that it takes no longer than the first round to
// know them. The zero value is ready; it has no lock.
type evidence struct {
	// proven are the scopes in which a Node led to an instance by a provider ID that it had
	// before or by its machine's own UUID, or to one that bears the cluster's mark.
	proven map[string]bool
	// nameMatches holds the scopes of instances found by no more than their names, by the
	// provider IDs that their Nodes got of it, until the scope is proven.
	nameMatches map[string]string
}

// saw records that ref led to the instance.
func (e *evidence) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	switch scope := instance.Scope; {
	case scope == "" || e.proven[scope]:
	case instance.Marked, instance.IsMachineOf(ref), e.existing(ref), len(e.nameMatches) >= maxNameMatches:
		e.prove(scope)
	default:
		if e.nameMatches == nil {
			e.nameMatches = map[string]string{}
		}
		e.nameMatches[instance.ProviderID] = scope
	}
}

// existing reports whether ref has a provider ID that is more than a name match of this process.
func (e *evidence) existing(ref cloud.InstanceRef) bool {
	return ref.ProviderID != "" && e.nameMatches[ref.ProviderID] == ""
}

// of is what scope has shown that counts for ref.
func (e *evidence) of(scope string, ref cloud.InstanceRef) Evidence {
	switch {
	case scope == "":
		return Unidentified
	case e.proven[scope], ref.ProviderID != "" && e.nameMatches[ref.ProviderID] == scope:
		return IDResolved
	case ref.ProviderID == "":
		for _, known := range e.nameMatches {
			if known == scope {
				return NameMatches
			}
		}
	}
	return NoEvidence
}

func (e *evidence) prove(scope string) {
	if e.proven == nil {
		e.proven = map[string]bool{}
	}
	e.proven[scope] = true
	maps.DeleteFunc(e.nameMatches, func(_, known string) bool { return known == scope })
}
