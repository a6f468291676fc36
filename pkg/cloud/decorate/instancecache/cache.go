package instancecache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

const (
	// window is how long a batch waits for company after its first asker.
	window = 20 * time.Millisecond
	// spacingMin and spacingMax bound how far apart batches begin. Batches that follow each
	// other within spacingMax double it, so that nodes registering one after the other are
	// soon asked for by the dozen.
	spacingMin, spacingMax = 100 * time.Millisecond, 2 * time.Second
	// confirmations bounds the direct reads at a time that check "not found".
	confirmations = 8
)

// Peers are refs that are likely to be asked for together, with the same maxAge. Each
// controller makes one and keeps it.
type Peers struct {
	// List must be cheap (an informer's cache) and ask neither the cloud nor the Cache.
	List func() []cloud.InstanceRef
	// Ahead is how old an instance may be that was read before anybody asked about it, where the machine itself says
	// that it is the one (cloud.Instance.IsMachineOf): once it was told, or a later read has failed, maxAge counts
	// again. So what takes its Nodes long to go through costs no more reads than what does not. Zero is maxAge.
	Ahead time.Duration
}

// The calls that the Cache makes.
var (
	findInstances = caller.Operation{Ability: "instances", Name: "find", Patient: true, Batched: true}
	getInstance   = caller.Operation{Ability: "instances", Name: "get"}
)

// nobody is what nil Peers mean.
var nobody = &Peers{}

// Cache asks cloud.Instances on behalf of controllers that go node by node.
type Cache struct {
	next    cloud.Instances
	call    *caller.Caller
	work    *batcher.Work
	slots   chan struct{}          // one for each direct read under way
	lookups *prometheus.CounterVec // by result
	hits    prometheus.Counter
	guard   *deletionguard.Guard
	nodes   *Peers // all of the cluster's; nil until Guard

	mu         sync.Mutex
	known      snapshot
	counted    nodeCounts
	batches    int // read
	pending    *batch
	began      time.Time                     // of the last batch
	spacing    time.Duration                 // of the next batch after began
	underWay   map[cloud.InstanceRef]*batch  // that has begun
	confirming map[cloud.InstanceRef]*answer // direct reads
}

// New makes a Cache. Close ends what it has running.
func New(next cloud.Instances, c *caller.Caller) *Cache {
	m := c.Metrics
	m.StartInstances(c.Provider)
	c.Start(findInstances, getInstance)
	lookups := m.Lookups.MustCurryWith(prometheus.Labels{"provider": c.Provider})
	return &Cache{
		next: next, call: c, work: batcher.NewWork(), slots: make(chan struct{}, confirmations),
		lookups: lookups, hits: lookups.WithLabelValues("hit"),
		guard:   deletionguard.New(c.Clock, m.GuardOn.WithLabelValues(c.Provider), m.Held.WithLabelValues(c.Provider)),
		known:   snapshot{entries: map[cloud.InstanceRef]entry{}, swept: c.Clock.Now()},
		spacing: spacingMin, underWay: map[cloud.InstanceRef]*batch{}, confirming: map[cloud.InstanceRef]*answer{},
	}
}

// Close cancels the reads under way and waits for their end; who still waits for one, or asks
// later, gets an error. It may be called more than once.
func (c *Cache) Close() { c.work.Close() }

// Guard sets how many Nodes may lack their instances; nodes lists every Node of the cluster
// that is this cloud's. Without it only the scope of a "not found" is checked. It must be
// called before the first question.
func (c *Cache) Guard(nodes *Peers, limits deletionguard.Limits, operator func(context.Context) deletionguard.Operator) {
	c.guard.Configure(limits, operator)
	c.nodes = nodes
}

// Held returns what the guard holds now, nil when it holds nothing.
func (c *Cache) Held() *deletionguard.Hold { return c.guard.Held() }

// Lookup answers for one node with what the cloud said at most maxAge ago (or Peers.Ahead), counted from
// when its answer arrived; zero asks it now. A ref with no such answer is asked for
// together with those of others that have none, in one Find which concurrent askers share:
// a controller that asks only about some nodes (those not ready, those not initialized)
// names these, so that one node that is not ready costs a read of one instance and not of
// the whole cluster. Nil others means none. ctx ends only the waiting. The error names the
// node; it is KindNotFound only on the word of a direct read that ended after the call.
func (c *Cache) Lookup(ctx context.Context, ref cloud.InstanceRef, maxAge time.Duration, others *Peers) (*cloud.Instance, error) {
	if ctx.Err() != nil {
		return nil, named(ref, context.Cause(ctx))
	}
	if c.nodes != nil && c.guard.Engaged() {
		others = c.nodes // so that each batch serves to count them, too
	}
	others = cmp.Or(others, nobody)
	b, instance, err := c.join(ctx, ref, maxAge, others)
	if b != nil {
		select {
		case <-b.done:
			if instance, err = b.answer(ref); err == nil {
				c.mu.Lock()
				c.known.tell(ref)
				c.mu.Unlock()
			}
		case <-ctx.Done():
			return nil, named(ref, context.Cause(ctx))
		}
	}
	if err != nil && cloud.IsNotFound(err) {
		instance, err = c.confirm(ctx, ref, err)
	}
	if err == nil && ref.ProviderID == "" {
		err = c.nameFound(ctx, ref, instance)
	}
	if err != nil {
		return nil, named(ref, err)
	}
	return instance, nil
}

// Missed reports whether a read of many, at most maxAge ago, did not have ref's instance, so that Lookup would read it directly. It proves
// nothing, and is for those who would ask about many such Nodes.
func (c *Cache) Missed(ref cloud.InstanceRef, maxAge time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, _ := c.known.get(ref, c.call.Clock.Now(), maxAge, 0)
	return state == absent
}

// join answers from the snapshot or names the batch that will. KindNotFound from here is
// only what a batch said.
func (c *Cache) join(ctx context.Context, ref cloud.InstanceRef, maxAge time.Duration, others *Peers) (*batch, *cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work.Closed() {
		return nil, nil, batcher.ErrClosed
	}
	switch state, e := c.known.get(ref, c.call.Clock.Now(), maxAge, others.Ahead); state {
	case present:
		c.known.tell(ref)
		c.hits.Inc()
		return nil, e.instance, nil
	case absent:
		c.lookups.WithLabelValues("absent").Inc()
		return nil, nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: e.scope, Err: errAbsent}
	case failed:
		c.lookups.WithLabelValues("failed").Inc()
		return nil, nil, e.err
	case unknown:
	}
	result, b := "shared", c.underWay[ref]
	if b == nil || maxAge <= 0 {
		if c.pending == nil {
			if !c.schedule(ctx) {
				return nil, nil, batcher.ErrClosed
			}
			result = "miss"
		}
		b = c.pending
		b.add(ref, maxAge, others)
	}
	c.lookups.WithLabelValues(result).Inc()
	return b, nil, nil
}

// batch is who asks for what, and then the answers. Its fields but results are guarded by Cache.mu.
type batch struct {
	asked      []cloud.InstanceRef
	wanted     map[cloud.InstanceRef]bool // asked as a set, later with the peers
	prefetches map[prefetch]bool

	done    chan struct{} // closed when results can be read
	results map[cloud.InstanceRef]cloud.Result[*cloud.Instance]
}

// prefetch is a group that is read along with an asker: those peers that have no answer of that age.
type prefetch struct {
	peers  *Peers
	maxAge time.Duration
}

func (b *batch) add(ref cloud.InstanceRef, maxAge time.Duration, others *Peers) {
	if !b.wanted[ref] {
		b.wanted[ref] = true
		b.asked = append(b.asked, ref)
	}
	if others.List != nil {
		b.prefetches[prefetch{others, maxAge}] = true
	}
}

// answer may be called when done is closed.
func (b *batch) answer(ref cloud.InstanceRef) (*cloud.Instance, error) {
	r, ok := b.results[ref]
	if !ok {
		return nil, batcher.ErrClosed
	}
	return r.Value, r.Err
}

// schedule makes the pending batch and starts its wait. mu is held.
func (c *Cache) schedule(ctx context.Context) bool {
	wait := window
	if since := c.call.Clock.Since(c.began); since > spacingMax {
		c.spacing = spacingMin
	} else {
		wait = max(wait, c.spacing-since)
		c.spacing = min(2*c.spacing, spacingMax)
	}
	b := &batch{wanted: map[cloud.InstanceRef]bool{}, prefetches: map[prefetch]bool{}, done: make(chan struct{})}
	if !c.work.Start(ctx, func(ctx context.Context) { c.run(ctx, b, wait) }) {
		return false
	}
	c.pending = b
	return true
}

// run is the life of a batch.
func (c *Cache) run(ctx context.Context, b *batch, wait time.Duration) {
	defer close(b.done)
	if backoff.Sleep(ctx, c.call.Clock, wait) != nil { // closed
		return
	}
	refs := c.begin(b)
	c.call.Metrics.Refreshes.WithLabelValues(c.call.Provider).Inc()
	results := make(map[cloud.InstanceRef]cloud.Result[*cloud.Instance], len(refs))
	for k, r := range c.read(ctx, refs) {
		results[refs[k]] = r
	}
	b.results = results
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		if c.underWay[ref] == b {
			delete(c.underWay, ref)
		}
	}
}

// begin closes the batch for further askers and says whom it asks for: the refs asked, and
// those of their prefetch groups that have no answer and are in no other batch.
func (c *Cache) begin(b *batch) []cloud.InstanceRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = nil
	c.began = c.call.Clock.Now()
	refs := b.asked
	for p := range b.prefetches {
		for _, ref := range p.peers.List() {
			if b.wanted[ref] || c.underWay[ref] != nil {
				continue
			}
			if state, _ := c.known.get(ref, c.began, p.maxAge, p.peers.Ahead); state == present || state == absent {
				continue
			}
			b.wanted[ref] = true
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs {
		c.underWay[ref] = b
	}
	return refs
}

// read makes one Find with its retries and keeps the answers.
func (c *Cache) read(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	began := c.call.Clock.Now()
	results := caller.Batch(ctx, c.call, findInstances, refs,
		func(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
			return caller.AllAnswered("an instance", c.next.Find(ctx, refs))
		})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches++
	now := c.call.Clock.Now()
	answered := false
	for k, ref := range refs {
		answered = answered || results[k].Err == nil || cloud.IsNotFound(results[k].Err)
		switch err := results[k].Err; {
		case err == nil:
			c.guard.Saw(ref, results[k].Value)
			c.known.put(ref, entry{instance: results[k].Value, began: began, arrived: now})
		case cloud.IsNotFound(err):
			c.known.put(ref, entry{scope: cloud.ScopeOf(err), began: began, arrived: now})
		case ctx.Err() == nil: // a batch that was given up says nothing about the cloud
			c.known.fail(ref, err, now)
		}
	}
	if answered {
		c.call.Metrics.RefreshTime.WithLabelValues(c.call.Provider).Set(float64(now.Unix()))
	}
	c.known.sweep(now)
	c.call.Metrics.SnapshotSize.WithLabelValues(c.call.Provider).Set(float64(len(c.known.entries)))
	return results
}

// confirm reads directly what a batch did not have. Its answer is the only one that anybody
// hears: KindNotFound is a direct read's own, passed the guard, and is not remembered. What the
// guard holds anyway is not read directly, save a probe from time to time: credentials that
// are not the cluster's cost no read a Node.
func (c *Cache) confirm(ctx context.Context, ref cloud.InstanceRef, absent error) (*cloud.Instance, error) {
	if err := c.notFound(ctx, ref, absent); !cloud.IsNotFound(err) && !c.guard.Probe() {
		return nil, err
	}
	instance, err := c.direct(ctx, ref)
	if cloud.IsNotFound(err) {
		err = c.notFound(ctx, ref, err)
	}
	return instance, err
}

// notFound returns err, that ref's instance does not exist, if the guard believes it, and
// otherwise why not.
func (c *Cache) notFound(ctx context.Context, ref cloud.InstanceRef, err error) error {
	claim, scope := deletionguard.IDNotFound, cloud.ScopeOf(err)
	if ref.ProviderID == "" {
		claim = deletionguard.NameNotFound
	}
	if verdict := c.guard.Check(ctx, claim, ref, scope, c.count(ctx, scope, c.claimed(ref, scope))); !verdict.Allows() {
		return verdict.Err()
	}
	return err
}

// nameFound returns why an instance that ref led to by its name is not taken for the Node's.
func (c *Cache) nameFound(ctx context.Context, ref cloud.InstanceRef, instance *cloud.Instance) error {
	scope := instance.Scope
	since := c.claimed(ref, scope)
	verdict := c.guard.Check(ctx, deletionguard.NameFound, ref, scope, c.tally().in(scope, since))
	if !verdict.Allows() { // by what was read last; others may have to be read first
		verdict = c.guard.Check(ctx, deletionguard.NameFound, ref, scope, c.count(ctx, scope, since))
	}
	if !verdict.Allows() {
		return cloud.Errorf(cloud.KindUnknown, "%s has this name, but it is in doubt: %s", instance.ProviderID, verdict.Message)
	}
	return nil
}

// answer is a direct read shared by all who ask while it runs.
type answer struct {
	done chan struct{} // closed when the result can be read
	cloud.Result[*cloud.Instance]
}

// direct reads directly, together with all who ask about ref meanwhile.
func (c *Cache) direct(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	c.mu.Lock()
	a := c.confirming[ref]
	if a == nil {
		a = &answer{done: make(chan struct{})}
		started := c.work.Start(ctx, func(ctx context.Context) {
			a.Value, a.Err = c.get(ctx, ref)
			c.mu.Lock()
			delete(c.confirming, ref)
			c.mu.Unlock()
			close(a.done)
		})
		if !started {
			c.mu.Unlock()
			return nil, batcher.ErrClosed
		}
		c.confirming[ref] = a
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.Value, a.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// get makes the direct read of what a batch did not have and keeps what it found.
func (c *Cache) get(ctx context.Context, ref cloud.InstanceRef) (instance *cloud.Instance, err error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, batcher.ErrClosed
	}
	var began time.Time
	err = c.call.Do(ctx, getInstance, func(ctx context.Context) (err error) {
		began = c.call.Clock.Now()
		instance, err = c.next.Get(ctx, ref)
		return caller.Answered("an instance", instance, err)
	})
	if err != nil {
		return nil, err
	}
	c.guard.Saw(ref, instance)
	c.mu.Lock()
	c.known.put(ref, entry{instance: instance, began: began, arrived: c.call.Clock.Now(), told: true})
	c.mu.Unlock()
	c.call.Metrics.Contradictions.WithLabelValues(c.call.Provider).Inc()
	klog.FromContext(ctx).V(2).Info("A batch read did not have an instance that a direct read found; the direct read counts",
		"provider", c.call.Provider, "node", ref.NodeName, "providerID", instance.ProviderID)
	return instance, nil
}

// errAbsent stands for an answer that a batch did not have.
var errAbsent = errors.New("not in the last batch read")

// named puts ref in front of err.
func named(ref cloud.InstanceRef, err error) error {
	switch {
	case ref.NodeName == "":
		return fmt.Errorf("instance %s: %w", ref.ProviderID, err)
	case ref.ProviderID == "":
		return fmt.Errorf("instance of node %s: %w", ref.NodeName, err)
	default:
		return fmt.Errorf("instance %s of node %s: %w", ref.ProviderID, ref.NodeName, err)
	}
}
