package decorate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
)

const (
	// volumesWindow is how long a read of volumes waits for company.
	volumesWindow = 10 * time.Millisecond
	// volumeReads is how many reads of volumes are under way at a time.
	volumeReads = 4
	// volumeGets bounds the direct reads of one batch at a time that check "not found".
	volumeGets = 8
)

// volumes decorates cloud.Volumes: refs that are asked for together are read together, and what a batch
// did not have is read directly. Nothing is remembered.
type volumes struct {
	cloud.Volumes
	call  *caller.Caller
	reads *batcher.Batcher[cloud.VolumeRef, cloud.Result[*cloud.Volume]]
}

func newVolumes(next cloud.Volumes, c *caller.Caller, w *batcher.Work) *volumes {
	return &volumes{Volumes: next, call: c, reads: batcher.New[cloud.VolumeRef, cloud.Result[*cloud.Volume]](
		batcher.Options{Work: w, Window: volumesWindow, Reads: volumeReads, Clock: c.Clock})}
}

// Find implements cloud.Volumes.
func (v *volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	if len(refs) == 0 {
		return nil
	}
	results := make([]cloud.Result[*cloud.Volume], len(refs))
	found, err := v.reads.Do(ctx, refs, v.read)
	for k, ref := range refs {
		if err != nil {
			results[k].Err = fmt.Errorf("read volume %s: %w", ref.ID, err)
		} else {
			results[k] = found[ref]
		}
	}
	return results
}

// read makes one Find with its retries, and checks what it does not have.
func (v *volumes) read(ctx context.Context, refs []cloud.VolumeRef) map[cloud.VolumeRef]cloud.Result[*cloud.Volume] {
	results := caller.Batch(ctx, v.call, findVolumes, refs,
		func(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
			return caller.AllAnswered("a volume", v.Volumes.Find(ctx, refs))
		})
	inflight.Each(volumeGets, slices.All(refs), func(k int, ref cloud.VolumeRef) {
		if cloud.IsNotFound(results[k].Err) {
			results[k].Value, results[k].Err = v.Get(ctx, ref)
		}
	})
	out := make(map[cloud.VolumeRef]cloud.Result[*cloud.Volume], len(refs))
	for k, ref := range refs {
		out[ref] = results[k]
	}
	return out
}

// The calls of volumes.
var (
	findVolumes = caller.Operation{Ability: "volumes", Name: "find", Batched: true}
	getVolume   = caller.Operation{Ability: "volumes", Name: "get"}
)

// Get implements cloud.Volumes.
func (v *volumes) Get(ctx context.Context, ref cloud.VolumeRef) (volume *cloud.Volume, err error) {
	err = v.call.Do(ctx, getVolume, func(ctx context.Context) (err error) {
		volume, err = v.Volumes.Get(ctx, ref)
		return caller.Answered("a volume", volume, err)
	})
	return volume, err
}
