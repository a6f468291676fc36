package decorate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

const (
	// MetadataMaxAge is the age of answers that is good enough for a node's addresses and labels.
	MetadataMaxAge = 30 * time.Second

	// window is how long a batch waits for company after its first asker.
	window = 20 * time.Millisecond
	// spacingMin and spacingMax bound how far apart batches begin. Batches that follow each
	// other within spacingMax double it, so that nodes registering one after the other are
	// soon asked for by the dozen.
	spacingMin, spacingMax = 100 * time.Millisecond, 2 * time.Second
	// failureHold is how long the error of a failed read answers those who ask again, so
	// that a controller going through its nodes one by one does not storm a cloud that is down.
	failureHold = 2 * time.Second
	// retention is how long answers stay that nobody refreshes: longer than any maxAge.
	retention = 10 * time.Minute
	// sweepEvery is how often those are dropped.
	sweepEvery = time.Minute
	// confirmations bounds the direct reads at a time that check "not found".
	confirmations = 8
)

// LifecycleMaxAge is the age of answers with which one cycle of the node lifecycle
// controller shares one batch and the next cycle gets its own: just under the period that
// lies between the end of a cycle and the start of the next.
func LifecycleMaxAge(nodeMonitorPeriod time.Duration) time.Duration {
	return nodeMonitorPeriod * 9 / 10
}

// Peers are refs that are likely to be asked for together, with the same maxAge. Each
// controller makes one and keeps it.
type Peers struct {
	// List must be cheap (an informer's cache) and ask neither the cloud nor Instances.
	List func() []cloud.InstanceRef
}

// Instances asks cloud.Instances on behalf of controllers that go node by node.
type Instances struct {
	next  cloud.Instances
	call  *caller
	work  *work
	clock clock.Clock
	slots chan struct{}
	hits  prometheus.Counter
	guard *deletionguard.Guard
	nodes *Peers // all of the cluster's; nil until Guard

	mu         sync.Mutex
	counted    nodeCounts
	batches    int // read
	known      snapshot
	swept      time.Time
	pending    *lookup
	began      time.Time     // of the last batch
	spacing    time.Duration // of the next batch after began
	underWay   map[cloud.InstanceRef]*lookup
	confirming map[cloud.InstanceRef]*confirmation
}

func newInstances(next cloud.Instances, c *caller, w *work) *Instances {
	c.metrics.instances(c.provider)
	return &Instances{
		next: next, call: c, work: w, clock: c.clock,
		slots:      make(chan struct{}, confirmations),
		hits:       c.metrics.lookups.WithLabelValues(c.provider, "hit"),
		known:      snapshot{},
		guard:      deletionguard.New(c.clock, c.metrics.guardOn.WithLabelValues(c.provider), c.metrics.held.WithLabelValues(c.provider)),
		swept:      c.clock.Now(),
		spacing:    spacingMin,
		underWay:   map[cloud.InstanceRef]*lookup{},
		confirming: map[cloud.InstanceRef]*confirmation{},
	}
}

// Lookup answers for one node with what the cloud said at most maxAge ago, counted from
// when its answer arrived; zero asks it now. A ref with no such answer is asked for
// together with those of others that have none, in one Find which concurrent askers share:
// a controller that asks only about some nodes (those not ready, those not initialized)
// names these, so that one node that is not ready costs a read of one instance and not of
// the whole cluster. Nil others means none. ctx ends only the waiting. The error names the
// node; it is KindNotFound only on the word of a direct read that ended after the call.
func (i *Instances) Lookup(ctx context.Context, ref cloud.InstanceRef, maxAge time.Duration, others *Peers) (*cloud.Instance, error) {
	if ctx.Err() != nil {
		return nil, named(ref, context.Cause(ctx))
	}
	if i.nodes != nil && i.guard.Engaged() {
		others = i.nodes // so that each batch serves to count them, too
	}
	l, instance, err := i.join(ctx, ref, maxAge, others)
	if l != nil {
		select {
		case <-l.done:
			instance, err = l.answer(ref)
		case <-ctx.Done():
			return nil, named(ref, context.Cause(ctx))
		}
	}
	if cloud.IsNotFound(err) {
		instance, err = i.confirm(ctx, ref, err)
	}
	if err == nil {
		err = i.nameFound(ctx, ref, instance)
	}
	if err != nil {
		return nil, named(ref, err)
	}
	return instance, nil
}

// join answers from the snapshot or names the batch that will. KindNotFound from here is
// only what a batch said.
func (i *Instances) join(ctx context.Context, ref cloud.InstanceRef, maxAge time.Duration, others *Peers) (*lookup, *cloud.Instance, error) {
	count := func(result string) { i.call.metrics.lookups.WithLabelValues(i.call.provider, result).Inc() }
	i.mu.Lock()
	defer i.mu.Unlock()
	switch state, e := i.known.get(ref, i.clock.Now(), maxAge); state {
	case present:
		i.hits.Inc()
		return nil, e.instance, nil
	case absent:
		count("absent")
		return nil, nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: e.scope, Err: errAbsent}
	case failed:
		count("failed")
		return nil, nil, e.err
	case unknown:
	}
	if l := i.underWay[ref]; l != nil && maxAge > 0 {
		count("shared")
		return l, nil, nil
	}
	if i.pending == nil {
		if !i.schedule(ctx) {
			return nil, nil, errClosed
		}
		count("miss")
	} else {
		count("shared")
	}
	i.pending.add(ref, maxAge, others)
	return i.pending, nil, nil
}

// get makes the direct read and keeps what it found.
func (i *Instances) get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	var instance *cloud.Instance
	var began time.Time
	err := i.call.do(ctx, operation{ability: "instances", name: "get"}, func(ctx context.Context) (err error) {
		began = i.clock.Now()
		instance, err = i.next.Get(ctx, ref)
		return whole(instance, err)
	})
	if err != nil {
		return nil, err
	}
	i.guard.Saw(ref, instance)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known.put(ref, instance, "", began, i.clock.Now())
	return instance, nil
}

// read makes one Find with its retries and keeps the answers.
func (i *Instances) read(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	began := i.clock.Now()
	results := batch(ctx, i.call, operation{ability: "instances", name: "find", patient: true}, refs,
		func(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
			results := i.next.Find(ctx, refs)
			for k := range results {
				results[k].Err = whole(results[k].Value, results[k].Err)
			}
			return results
		})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.batches++
	now := i.clock.Now()
	for k, ref := range refs {
		switch err := results[k].Err; {
		case err == nil:
			i.guard.Saw(ref, results[k].Value)
			i.known.put(ref, results[k].Value, "", began, now)
		case cloud.IsNotFound(err):
			i.known.put(ref, nil, cloud.ScopeOf(err), began, now)
		case ctx.Err() == nil: // a batch that was given up says nothing about the cloud
			i.known.fail(ref, err, now)
		}
	}
	i.call.metrics.snapshotSize.WithLabelValues(i.call.provider).Set(float64(len(i.known)))
	return results
}

// errAbsent stands for an answer that a batch did not have.
var errAbsent = errors.New("not in the last batch read")

// whole turns "no error and no instance" into an error.
func whole(instance *cloud.Instance, err error) error {
	if err == nil && instance == nil {
		return errors.New("the provider answered with neither an instance nor an error, which is a bug in it")
	}
	return err
}

// named puts ref in front of err.
func named(ref cloud.InstanceRef, err error) error {
	switch {
	case err == nil:
		return nil
	case ref.NodeName == "":
		return fmt.Errorf("instance %s: %w", ref.ProviderID, err)
	case ref.ProviderID == "":
		return fmt.Errorf("instance of node %s: %w", ref.NodeName, err)
	default:
		return fmt.Errorf("instance %s of node %s: %w", ref.ProviderID, ref.NodeName, err)
	}
}
