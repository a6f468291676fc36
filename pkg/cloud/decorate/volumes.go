package decorate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// volumesWindow is how long a read of volumes waits for company.
const volumesWindow = 10 * time.Millisecond

// volumes decorates cloud.Volumes: refs that are asked for within volumesWindow are read
// together. Every answer comes from a read that began after it was asked for; nothing is
// remembered.
type volumes struct {
	next cloud.Volumes
	call *caller
	work *work

	mu      sync.Mutex
	pending *volumesRead
}

// volumesRead is one batch. It is guarded by volumes.mu until it begins.
type volumesRead struct {
	refs    []cloud.VolumeRef
	at      map[cloud.VolumeRef]int
	done    chan struct{} // closed when results can be read
	results []cloud.Result[*cloud.Volume]
}

var _ cloud.Volumes = (*volumes)(nil)

func newVolumes(next cloud.Volumes, c *caller, w *work) *volumes {
	return &volumes{next: next, call: c, work: w}
}

// Ref implements cloud.Volumes.
func (v *volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	return v.next.Ref(pv)
}

// Find implements cloud.Volumes.
func (v *volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	if len(refs) == 0 {
		return nil
	}
	results := make([]cloud.Result[*cloud.Volume], len(refs))
	read, err := v.join(ctx, refs)
	if err == nil {
		select {
		case <-read.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	for k, ref := range refs {
		if err != nil {
			results[k].Err = fmt.Errorf("read volume %s: %w", ref.ID, err)
		} else {
			results[k] = read.results[read.at[ref]]
		}
	}
	return results
}

// join adds refs to the batch that has not begun, or to a new one.
func (v *volumes) join(ctx context.Context, refs []cloud.VolumeRef) (*volumesRead, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending == nil {
		read := &volumesRead{at: map[cloud.VolumeRef]int{}, done: make(chan struct{})}
		if !v.work.start(ctx, func(ctx context.Context) { v.run(ctx, read) }) {
			return nil, errClosed
		}
		v.pending = read
	}
	for _, ref := range refs {
		if _, ok := v.pending.at[ref]; !ok {
			v.pending.at[ref] = len(v.pending.refs)
			v.pending.refs = append(v.pending.refs, ref)
		}
	}
	return v.pending, nil
}

// run waits for company, then reads. When it is closed while waiting, the read fails for that.
func (v *volumes) run(ctx context.Context, read *volumesRead) {
	defer close(read.done)
	_ = sleep(ctx, v.call.clock, volumesWindow)
	v.mu.Lock()
	v.pending = nil
	v.mu.Unlock()
	read.results = batch(ctx, v.call, operation{ability: "volumes", name: "find"}, read.refs,
		func(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
			results := v.next.Find(ctx, refs)
			for k := range results {
				if results[k].Err == nil && results[k].Value == nil {
					results[k].Err = errors.New("the provider answered with neither a volume nor an error, which is a bug in it")
				}
			}
			return results
		})
}
