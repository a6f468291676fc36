package decorate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// volumesWindow is how long a read of volumes waits for company.
	volumesWindow = 10 * time.Millisecond
	// volumeReads is how many reads of volumes are under way at a time. What is asked
	// meanwhile is one further read, so that a cloud that is slow is not asked more often.
	volumeReads = 4
)

// volumes decorates cloud.Volumes: refs that are asked for within volumesWindow, or while
// volumeReads reads are under way, are read together, and what a batch did not have is read
// directly. Every answer comes from a read that began after it was asked for; nothing is
// remembered. A read ends when nobody waits for it.
type volumes struct {
	next  cloud.Volumes
	call  *caller
	work  *work
	slots chan struct{} // one for each read under way

	mu      sync.Mutex
	pending *volumesRead
}

// volumesRead is one batch.
type volumesRead struct {
	done    chan struct{} // closed when results can be read
	results map[cloud.VolumeRef]cloud.Result[*cloud.Volume]

	// Guarded by volumes.mu:
	askers int                     // who waits
	wanted map[cloud.VolumeRef]int // by how many of them
	cancel context.CancelFunc      // nil until it runs
}

var _ cloud.Volumes = (*volumes)(nil)

func newVolumes(next cloud.Volumes, c *caller, w *work) *volumes {
	return &volumes{next: next, call: c, work: w, slots: make(chan struct{}, volumeReads)}
}

// Sources implements cloud.Volumes.
func (v *volumes) Sources() []cloud.VolumeSource { return v.next.Sources() }

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
		v.leave(read, refs)
	}
	for k, ref := range refs {
		if err != nil {
			results[k].Err = fmt.Errorf("read volume %s: %w", ref.ID, err)
		} else {
			results[k] = read.results[ref]
		}
	}
	return results
}

// join adds refs to the batch that has not begun, or to a new one.
func (v *volumes) join(ctx context.Context, refs []cloud.VolumeRef) (*volumesRead, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending == nil {
		read := &volumesRead{done: make(chan struct{}), wanted: map[cloud.VolumeRef]int{}}
		if !v.work.start(ctx, func(ctx context.Context) { v.run(ctx, read) }) {
			return nil, errClosed
		}
		v.pending = read
	}
	v.pending.askers++
	for _, ref := range refs {
		v.pending.wanted[ref]++
	}
	return v.pending, nil
}

// leave takes back what join added. When nobody waits any more, the read ends.
func (v *volumes) leave(read *volumesRead, refs []cloud.VolumeRef) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, ref := range refs {
		if read.wanted[ref]--; read.wanted[ref] == 0 {
			delete(read.wanted, ref)
		}
	}
	if read.askers--; read.askers > 0 {
		return
	}
	if v.pending == read {
		v.pending = nil
	}
	if read.cancel != nil {
		read.cancel()
	}
}

// run waits for company and for its turn, then reads. When it is closed or left by all while
// waiting, the read fails for that.
func (v *volumes) run(ctx context.Context, read *volumesRead) {
	defer close(read.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.mu.Lock()
	read.cancel = cancel
	left := read.askers == 0
	v.mu.Unlock()
	if left {
		return
	}
	_ = sleep(ctx, v.call.clock, volumesWindow)
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
	}
	refs := v.begin(read)
	if len(refs) == 0 {
		return
	}
	results := batch(ctx, v.call, operation{ability: "volumes", name: "find"}, refs, v.ask)
	var confirming errgroup.Group
	confirming.SetLimit(confirmations)
	for k, ref := range refs {
		if cloud.IsNotFound(results[k].Err) {
			confirming.Go(func() error {
				results[k].Value, results[k].Err = v.Get(ctx, ref)
				return nil
			})
		}
	}
	_ = confirming.Wait() // every error is in its answer
	read.results = make(map[cloud.VolumeRef]cloud.Result[*cloud.Volume], len(refs))
	for k, ref := range refs {
		read.results[ref] = results[k]
	}
}

// Get implements cloud.Volumes.
func (v *volumes) Get(ctx context.Context, ref cloud.VolumeRef) (volume *cloud.Volume, err error) {
	err = v.call.do(ctx, operation{ability: "volumes", name: "get"}, func(ctx context.Context) (err error) {
		volume, err = v.next.Get(ctx, ref)
		return wholeVolume(volume, err)
	})
	return volume, err
}

// begin ends the gathering and returns what is wanted.
func (v *volumes) begin(read *volumesRead) []cloud.VolumeRef {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending == read {
		v.pending = nil
	}
	refs := make([]cloud.VolumeRef, 0, len(read.wanted))
	for ref := range read.wanted {
		refs = append(refs, ref)
	}
	return refs
}

// ask asks the provider.
func (v *volumes) ask(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	results := v.next.Find(ctx, refs)
	for k := range results {
		results[k].Err = wholeVolume(results[k].Value, results[k].Err)
	}
	return results
}

// wholeVolume turns "no error and no volume" into an error.
func wholeVolume(volume *cloud.Volume, err error) error {
	if err == nil && volume == nil {
		return errors.New("the provider answered with neither a volume nor an error, which is a bug in it")
	}
	return err
}
