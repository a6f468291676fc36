package decorate

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Brake sets when "not found" is held back; without it only scopes are checked. It must be
// called before the first question.
func (i *Instances) Brake(o BrakeOptions) {
	i.brake.mu.Lock()
	defer i.brake.mu.Unlock()
	i.brake.opts = &o
}

// Held returns what the brake holds back now, nil when it holds nothing.
func (i *Instances) Held() *Hold { return i.brake.state() }

// everyone are the peers of an asker: while something is held, all Nodes, so that each batch
// is a census too.
func (i *Instances) everyone(others *Peers) *Peers {
	if i.brake.opts != nil && i.brake.engaged() {
		return i.brake.opts.Nodes
	}
	return others
}

// census counts the cluster's instances by answers as fresh as MetadataMaxAge, for a decision
// about scope. Nodes without one are asked for in one batch, which concurrent askers share.
func (i *Instances) census(ctx context.Context, scope string) census {
	if i.brake.opts == nil {
		return census{}
	}
	nodes := i.brake.opts.Nodes
	refs := nodes.List()
	c, stale := i.count(refs, scope)
	if stale == nil {
		return c
	}
	l, _, _ := i.join(ctx, *stale, MetadataMaxAge, nodes)
	if l != nil {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	c, _ = i.count(refs, scope)
	return c
}

// count counts by the snapshot; stale is one of those that it has no answer about. Instances
// that were seen in another scope last and cannot be read now do not count as unknown: that
// a region is down says nothing about the others.
func (i *Instances) count(refs []cloud.InstanceRef, scope string) (c census, stale *cloud.InstanceRef) {
	c.present = map[string]int{}
	lost := func(ref cloud.InstanceRef) {
		if i.brake.isElder(ref) {
			c.elders++
		}
	}
	now := i.clock.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, ref := range refs {
		switch state, e := i.known.get(ref, now, MetadataMaxAge); state {
		case present:
			c.present[e.instance.Scope]++
			if i.brake.isElder(ref) {
				c.eldersSeen++
			}
		case absent:
			c.missing++
			lost(ref)
		case failed:
			switch cloud.KindOf(e.err) {
			case cloud.KindInvalid, cloud.KindConflict: // no question for this cloud, or none that it can answer
			default:
				if !i.known.elsewhere(ref, scope) {
					c.unknown++
					lost(ref)
				}
			}
		case unknown:
			if !i.known.elsewhere(ref, scope) {
				c.unknown++
				lost(ref)
			}
			stale = &ref
		}
	}
	return c, stale
}
