package instancecache

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

const (
	// MetadataMaxAge is the age of answers that is good enough for a node's addresses and labels.
	MetadataMaxAge = 30 * time.Second

	// failureHold is how long the error of a failed read answers those who ask again, so
	// that a controller going through its nodes one by one does not storm a cloud that is down.
	failureHold = 2 * time.Second
	// retention is how long answers stay that nobody refreshes: longer than any maxAge and Peers.Ahead.
	retention = 10 * time.Minute
	// sweepEvery is how often those are dropped.
	sweepEvery = time.Minute
)

// snapshot holds the last answers about instances, one for each node. It has no lock.
type snapshot struct {
	entries map[cloud.InstanceRef]entry // by slot
	swept   time.Time
}

// entry is what is known about one node's instance.
type entry struct {
	// ref is what was asked.
	ref cloud.InstanceRef
	// instance is the answer; nil when a batch did not have it, which proves nothing yet.
	instance *cloud.Instance
	// scope is where a batch did not have it.
	scope string
	// began and arrived are the times of the read.
	began, arrived time.Time
	// told is that somebody was answered with it.
	told bool
	// err is why the last read failed, for failedRef, at failed. It is no answer and leaves
	// the last answer as it is.
	err       error
	failedRef cloud.InstanceRef
	failed    time.Time
}

// slot is where answers about ref's node are kept: under its name, so that they are found
// again when the node has got its provider ID, and only one is kept for a node.
func slot(ref cloud.InstanceRef) cloud.InstanceRef {
	if ref.NodeName != "" {
		return cloud.InstanceRef{NodeName: ref.NodeName}
	}
	return cloud.InstanceRef{ProviderID: ref.ProviderID}
}

// answers reports whether e answers ref: it was asked by ref, or the instance found for the
// node is the one that ref names by provider ID. What was asked by provider ID never
// answers a question by name: the node may have been made anew since.
func (e *entry) answers(ref cloud.InstanceRef) bool {
	if e.arrived.IsZero() {
		return false
	}
	if e.ref == ref {
		return true
	}
	return e.instance != nil && e.ref.NodeName == ref.NodeName &&
		ref.ProviderID != "" && e.instance.ProviderID == ref.ProviderID
}

// isAhead reports whether e may answer ref although it is old: nobody was told of it yet, no later read has failed, and
// the machine itself is the instance, not one that has had its name.
func (e *entry) isAhead(ref cloud.InstanceRef) bool {
	return !e.told && !e.failed.After(e.arrived) && (ref.ProviderID != "" || e.instance.IsMachineOf(ref))
}

// state is what the snapshot can say.
type state int

const (
	unknown state = iota // nothing that is fresh enough
	present              // the instance
	absent               // a batch did not have it: to be checked by a direct read
	failed               // a read has failed just now
)

// get says what is known of ref that arrived less than maxAge before now, or less than ahead if it is ahead of its
// asker. Failures count for failureHold, or maxAge when that is shorter.
func (s *snapshot) get(ref cloud.InstanceRef, now time.Time, maxAge, ahead time.Duration) (state, entry) {
	e, ok := s.entries[slot(ref)]
	if !ok || maxAge <= 0 {
		return unknown, entry{}
	}
	age := now.Sub(e.arrived)
	switch {
	case !e.answers(ref):
	case e.instance != nil && (age < maxAge || age < ahead && e.isAhead(ref)):
		return present, e
	case e.instance == nil && age < maxAge:
		return absent, e
	}
	if e.err != nil && e.failedRef == ref && now.Sub(e.failed) < min(failureHold, maxAge) {
		return failed, e
	}
	return unknown, entry{}
}

// tell records that somebody was answered with what is known of ref.
func (s *snapshot) tell(ref cloud.InstanceRef) {
	if e, ok := s.entries[slot(ref)]; ok {
		e.told = true
		s.entries[slot(ref)] = e
	}
}

// scope is where ref's instance was seen last, however long ago; "" where that is not known.
func (s *snapshot) scope(ref cloud.InstanceRef) string {
	if e := s.entries[slot(ref)]; e.answers(ref) && e.instance != nil {
		return e.instance.Scope
	}
	return ""
}

// put records an answer, unless that of a later read is there.
func (s *snapshot) put(ref cloud.InstanceRef, e entry) {
	if old, ok := s.entries[slot(ref)]; !ok || !old.began.After(e.began) {
		e.ref = ref
		s.entries[slot(ref)] = e
	}
}

// fail records a failed read.
func (s *snapshot) fail(ref cloud.InstanceRef, err error, now time.Time) {
	e := s.entries[slot(ref)]
	e.err, e.failedRef, e.failed = err, ref, now
	s.entries[slot(ref)] = e
}

// sweep drops from time to time what is older than retention.
func (s *snapshot) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.entries, func(_ cloud.InstanceRef, e entry) bool {
		return now.Sub(e.arrived) >= retention && now.Sub(e.failed) >= retention
	})
}

// nodeCounts count the cluster's Nodes by what is known of their instances.
type nodeCounts struct {
	deletionguard.Counts // what is the same for every scope
	// seen are by the scope where they are, missing by the one that lacked them, unreadable by the one
	// where they were seen last; "" is not known.
	seen, missing, unreadable map[string]int
	// stale is one that there is no answer about, existing one of Counts.ExistingSeen; nil for none.
	stale, existing *cloud.InstanceRef
	// existingRead is when the last read began that has seen one of those.
	existingRead time.Time
	// batch is how many batches had been read, and until when the first answer gets too old.
	batch int
	until time.Time
}

// in is what counts for a claim of scope. That instances of another scope cannot be read says
// nothing about this one; that existing ones were seen in reads before since counts for nothing.
func (n nodeCounts) in(scope string, since time.Time) deletionguard.Counts {
	c := n.Counts
	for at, seen := range n.seen {
		c.Seen += seen
		if at == scope || scope == "" {
			c.SeenHere += seen
		}
	}
	mayBeIn := func(counts map[string]int) (sum int) {
		for at, count := range counts {
			if at == scope || at == "" || scope == "" {
				sum += count
			}
		}
		return sum
	}
	c.MissingHere, c.Unreadable = mayBeIn(n.missing), mayBeIn(n.unreadable)
	if n.existingRead.Before(since) {
		c.ExistingSeen, c.ExistingLost = 0, c.ExistingLost+c.ExistingSeen
	}
	return c
}

// claimed is when the read began by which scope makes a claim about ref's name, zero where it may
// rest on older reads of others.
func (c *Cache) claimed(ref cloud.InstanceRef, scope string) time.Time {
	if ref.ProviderID != "" || scope == "" || c.guard.Proven(scope) {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.entries[slot(ref)].began
}

// count counts for a claim of scope by answers as fresh as MetadataMaxAge, existing instances by reads
// that did not begin before since. Nodes without such an answer are asked for in one batch, which
// concurrent askers share.
func (c *Cache) count(ctx context.Context, scope string, since time.Time) deletionguard.Counts {
	counts := c.tally()
	ref, maxAge := counts.stale, MetadataMaxAge
	if counts.existing != nil && counts.existingRead.Before(since) {
		ref, maxAge = counts.existing, c.call.Clock.Since(since)
	}
	if ref == nil {
		return counts.in(scope, since)
	}
	if b, _, _ := c.join(ctx, *ref, maxAge, c.nodes); b != nil {
		select {
		case <-b.done:
		case <-ctx.Done():
		}
	}
	return c.tally().in(scope, since)
}

// tally counts by the snapshot, once a batch: all who ask about thousands of Nodes that are
// held get the same counts. What a direct read has found since counts with the next batch.
func (c *Cache) tally() nodeCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.call.Clock.Now()
	if c.nodes == nil || c.counted.batch == c.batches && now.Before(c.counted.until) {
		return c.counted
	}
	n := nodeCounts{seen: map[string]int{}, missing: map[string]int{}, unreadable: map[string]int{}, batch: c.batches, until: now.Add(MetadataMaxAge)}
	for _, ref := range c.nodes.List() {
		state, e := c.known.get(ref, now, MetadataMaxAge, 0)
		if state == failed && slices.Contains([]cloud.Kind{cloud.KindInvalid, cloud.KindConflict}, cloud.KindOf(e.err)) {
			continue // no question for this cloud, or none that it can answer
		}
		old, lost := e.arrived.Add(MetadataMaxAge), &n.ExistingLost
		switch state {
		case present:
			n.seen[e.instance.Scope]++
			lost = &n.ExistingSeen
		case absent:
			n.Missing++
			n.missing[e.scope]++
		case failed:
			n.unreadable[c.known.scope(ref)]++
			old = now.Add(failureHold)
		case unknown:
			n.unreadable[c.known.scope(ref)]++
			n.stale, old = &ref, n.until
		}
		if c.guard.Existing(ref) {
			if *lost++; state == present {
				n.existing = &ref
				if e.began.After(n.existingRead) {
					n.existingRead = e.began
				}
			}
		}
		if old.Before(n.until) {
			n.until = old
		}
	}
	c.counted = n
	return n
}
