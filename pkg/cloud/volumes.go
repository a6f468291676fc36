package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// VolumePlaceholder is the volume's name in PersistentVolumes of provisioners that have not
// made the volume yet.
const VolumePlaceholder = "placeholder-for-provisioning"

// Volumes answers where a PersistentVolume's storage is.
type Volumes interface {
	// Sources are the sources of PersistentVolumes that Ref knows, so that others need not be
	// sent over the wire to be asked about; none when no PersistentVolume is this cloud's. Pure.
	Sources() []VolumeSource
	// Ref names the volume behind pv. ok is false, without an error, when pv's source is none
	// of Sources or names VolumePlaceholder. Pure: it calls no cloud.
	Ref(pv *corev1.PersistentVolume) (ref VolumeRef, ok bool, err error)
	// Find answers every ref, in their order, in as few API calls as the cloud allows.
	// KindNotFound in an answer means "not in what the batch read returned"; it becomes
	// evidence only after Get confirms it, which decorate does.
	Find(ctx context.Context, refs []VolumeRef) []Result[*Volume]
	// Get reads one volume directly. Its KindNotFound is the cloud's own word.
	Get(ctx context.Context, ref VolumeRef) (*Volume, error)
}

// VolumeSource is a kind of source of PersistentVolumes.
type VolumeSource struct {
	// Field is the source's field in the PersistentVolume's spec: "cinder", "csi", …
	Field string
	// Driver is the name of the CSI driver; empty for in-tree sources.
	Driver string
	// NameField is the field in Field that names the volume: "volumeID", "volumeHandle", …
	NameField string
}

// VolumeRef names a volume. It is comparable.
type VolumeRef struct {
	// ID is the cloud's identifier of the volume.
	ID string
	// TopologyKey is the CSI driver's own topology key, to be required in nodeAffinity
	// beside the well-known labels; empty for in-tree sources.
	TopologyKey string
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
