package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Volumes answers where a PersistentVolume's storage is.
type Volumes interface {
	// Ref names the volume behind pv. ok is false when pv's source is not this cloud's, or
	// names no volume yet (the placeholder that provisioners use). Pure: it calls no cloud.
	Ref(pv *corev1.PersistentVolume) (ref VolumeRef, ok bool, err error)
	// Find answers every ref, in their order, in as few API calls as the cloud allows.
	// KindNotFound is the cloud's own word.
	Find(ctx context.Context, refs []VolumeRef) []Result[*Volume]
}

// VolumeRef names a volume. It is comparable.
type VolumeRef struct {
	// ID is the cloud's identifier of the volume.
	ID string
	// TopologyKey is the CSI driver's own topology key, to be required in nodeAffinity
	// beside the well-known labels; empty for in-tree sources.
	TopologyKey string
	// ZoneHint is the zone that the PV's labels name, for clouds that need one to find the
	// volume; empty for none.
	ZoneHint string
}

// Volume is where a volume can be attached.
type Volume struct {
	// ID is the cloud's identifier.
	ID string
	// Zones are the zones it can be attached in, sorted; empty when it is not bound to any.
	Zones []string
	// Region is the cloud's region; empty when unknown or when regions are not labeled.
	Region string
}
