package decorate

import (
	"context"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// lookup is one batch: who asks for what, and then the answers. Its fields but results
// are guarded by Instances.mu.
type lookup struct {
	asked      []cloud.InstanceRef
	wanted     map[cloud.InstanceRef]struct{} // asked as a set, later with the peers
	prefetches map[prefetch]struct{}

	done    chan struct{} // closed when results can be read
	results map[cloud.InstanceRef]cloud.Result[*cloud.Instance]
}

// prefetch is a group that is read along with an asker: those peers that have no answer of that age.
type prefetch struct {
	peers  *Peers
	maxAge time.Duration
}

func (l *lookup) add(ref cloud.InstanceRef, maxAge time.Duration, others *Peers) {
	if _, ok := l.wanted[ref]; !ok {
		l.wanted[ref] = struct{}{}
		l.asked = append(l.asked, ref)
	}
	if others != nil && others.List != nil {
		l.prefetches[prefetch{others, maxAge}] = struct{}{}
	}
}

// answer may be called when done is closed.
func (l *lookup) answer(ref cloud.InstanceRef) (*cloud.Instance, error) {
	r, ok := l.results[ref]
	if !ok {
		return nil, errClosed
	}
	return r.Value, r.Err
}

// schedule makes the pending batch and starts its wait. Instances.mu is held.
func (i *Instances) schedule(ctx context.Context) bool {
	now := i.clock.Now()
	wait := window
	if since := now.Sub(i.began); since > spacingMax {
		i.spacing = spacingMin
	} else {
		wait = max(wait, i.spacing-since)
		i.spacing = min(2*i.spacing, spacingMax)
	}
	l := &lookup{
		wanted:     map[cloud.InstanceRef]struct{}{},
		prefetches: map[prefetch]struct{}{},
		done:       make(chan struct{}),
	}
	if !i.work.start(ctx, func(ctx context.Context) { i.run(ctx, l, wait) }) {
		return false
	}
	i.pending = l
	return true
}

// run is the life of a batch.
func (i *Instances) run(ctx context.Context, l *lookup, wait time.Duration) {
	defer close(l.done)
	if err := sleep(ctx, i.clock, wait); err != nil { // closed
		i.mu.Lock()
		defer i.mu.Unlock()
		i.pending = nil
		return
	}
	refs := i.begin(l)
	i.call.metrics.refreshes.WithLabelValues(i.call.provider).Inc()
	answers := i.read(ctx, refs)
	results := make(map[cloud.InstanceRef]cloud.Result[*cloud.Instance], len(refs))
	for k, ref := range refs {
		results[ref] = answers[k]
	}
	l.results = results
	i.finish(l)
}

// begin closes the batch for further askers and says whom it asks for: the refs asked, and
// those of their prefetch groups that have no answer and are in no other batch.
func (i *Instances) begin(l *lookup) []cloud.InstanceRef {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending = nil
	i.began = i.clock.Now()
	refs := l.asked
	for p := range l.prefetches {
		for _, ref := range p.peers.List() {
			if _, ok := l.wanted[ref]; ok || i.underWay[ref] != nil {
				continue
			}
			if state, _ := i.known.get(ref, i.began, p.maxAge); state == present || state == absent {
				continue
			}
			l.wanted[ref] = struct{}{}
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs {
		i.underWay[ref] = l
	}
	return refs
}

// finish takes the batch off and from time to time drops what nobody needs any more.
func (i *Instances) finish(l *lookup) {
	now := i.clock.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for ref := range l.wanted {
		if i.underWay[ref] == l {
			delete(i.underWay, ref)
		}
	}
	if now.Sub(i.swept) < sweepEvery {
		return
	}
	i.swept = now
	i.known.sweep(now)
	i.call.metrics.snapshotSize.WithLabelValues(i.call.provider).Set(float64(len(i.known)))
}
