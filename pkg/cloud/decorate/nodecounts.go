package decorate

import (
	"context"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

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
func (i *Instances) claimed(ref cloud.InstanceRef, scope string) time.Time {
	if ref.ProviderID != "" || scope == "" || i.guard.Proven(scope) {
		return time.Time{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[slot(ref)].began
}

// count counts for a claim of scope by answers as fresh as MetadataMaxAge, existing instances by reads
// that did not begin before since. Nodes without such an answer are asked for in one batch, which
// concurrent askers share.
func (i *Instances) count(ctx context.Context, scope string, since time.Time) deletionguard.Counts {
	counts := i.tally()
	ref, maxAge := counts.stale, MetadataMaxAge
	if counts.existing != nil && counts.existingRead.Before(since) {
		ref, maxAge = counts.existing, i.clock.Since(since)
	}
	if ref == nil {
		return counts.in(scope, since)
	}
	if l, _, _ := i.join(ctx, *ref, maxAge, i.nodes); l != nil {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	return i.tally().in(scope, since)
}

// tally counts by the snapshot, once a batch: all who ask about thousands of Nodes that are
// held get the same counts. What a direct read has found since counts with the next batch.
func (i *Instances) tally() nodeCounts {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	if i.nodes == nil || i.counted.batch == i.batches && now.Before(i.counted.until) {
		return i.counted
	}
	n := nodeCounts{seen: map[string]int{}, missing: map[string]int{}, unreadable: map[string]int{}, batch: i.batches, until: now.Add(MetadataMaxAge)}
	for _, ref := range i.nodes.List() {
		state, e := i.known.get(ref, now, MetadataMaxAge)
		if kind := cloud.KindOf(e.err); state == failed && (kind == cloud.KindInvalid || kind == cloud.KindConflict) {
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
			n.unreadable[i.known.scope(ref)]++
			old = now.Add(failureHold)
		case unknown:
			n.unreadable[i.known.scope(ref)]++
			n.stale, old = &ref, n.until
		}
		if i.guard.Existing(ref) {
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
	i.counted = n
	return n
}
