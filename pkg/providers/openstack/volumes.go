package openstack

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	csiDriver      = "cinder.csi.openstack.org"
	csiTopologyKey = "topology.cinder.csi.openstack.org/zone"
	// volumePlaceholder is the volume name that provisioners use before they have made one.
	volumePlaceholder = "placeholder-for-provisioning"
	// fewVolumes is how many volumes are read one by one instead of from a list.
	fewVolumes = 2
)

// Volumes answers for Cinder volumes: of in-tree cinder PersistentVolumes and of those of
// the Cinder CSI driver.
type Volumes struct{ c *client }

var _ cloud.Volumes = (*Volumes)(nil)

// Ref implements cloud.Volumes. With [BlockStorage] ignore-volume-az no PersistentVolume is
// ours: they get no labels, as the key has always meant.
func (v *Volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	if v.c.cfg.BlockStorage.IgnoreVolumeAZ {
		return cloud.VolumeRef{}, false, nil
	}
	var ref cloud.VolumeRef
	var field string
	switch {
	case pv.Spec.Cinder != nil:
		ref.ID, field = pv.Spec.Cinder.VolumeID, "spec.cinder.volumeID"
	case pv.Spec.CSI != nil && pv.Spec.CSI.Driver == csiDriver:
		ref.ID, field = pv.Spec.CSI.VolumeHandle, "spec.csi.volumeHandle"
		ref.TopologyKey = csiTopologyKey
	default:
		return cloud.VolumeRef{}, false, nil
	}
	if ref.ID == volumePlaceholder {
		return cloud.VolumeRef{}, false, nil
	}
	if !isUUID(ref.ID) {
		return cloud.VolumeRef{}, false, cloud.Errorf(cloud.KindInvalid, "%s %.100q is not a Cinder volume's UUID", field, ref.ID)
	}
	ref.ID = strings.ToLower(ref.ID)
	return ref, true, nil
}

// Find implements cloud.Volumes. What a list lacks is read directly before it is NotFound.
func (v *Volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	distinct := map[string]bool{}
	for _, ref := range refs {
		distinct[ref.ID] = true
	}
	listed := map[string]*volume{}
	if len(distinct) > fewVolumes {
		volumes, err := v.list(ctx)
		if err != nil {
			return failAll[*cloud.Volume](len(refs), err)
		}
		for n := range volumes {
			listed[volumes[n].ID] = &volumes[n]
		}
	}
	answers := make(map[string]cloud.Result[*cloud.Volume], len(distinct))
	for id := range distinct {
		vol, err := listed[id], error(nil)
		if vol == nil {
			vol, err = v.get(ctx, id)
		}
		if err != nil {
			answers[id] = cloud.Result[*cloud.Volume]{Err: err}
			continue
		}
		answers[id] = cloud.Result[*cloud.Volume]{Value: v.answer(vol)}
	}
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n] = answers[ref.ID]
	}
	return out
}

// volume is what is read of a Cinder volume.
type volume struct {
	ID               string `json:"id"`
	AvailabilityZone string `json:"availability_zone"`
}

func (v *Volumes) answer(vol *volume) *cloud.Volume {
	out := &cloud.Volume{ID: vol.ID, Region: v.c.region()}
	// As the zone label of Nodes, or the two would never match.
	if zone := labelValue(vol.AvailabilityZone); zone != "" {
		out.Zones = []string{zone}
	}
	return out
}

func (v *Volumes) list(ctx context.Context) ([]volume, error) {
	sc, err := v.c.blockStorage(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := listAll[volume](ctx, sc, "volumes/detail", nil, "volumes")
	return volumes, wrapError("list volumes", err)
}

func (v *Volumes) get(ctx context.Context, id string) (*volume, error) {
	op := "get volume " + id
	if !isUUID(id) {
		return nil, cloud.Errorf(cloud.KindInvalid, "%.100q is not a Cinder volume's UUID", id)
	}
	sc, err := v.c.blockStorage(ctx)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Volume *volume `json:"volume"`
	}
	if err := getJSON(ctx, sc, sc.ServiceURL("volumes", id), &doc); err != nil {
		return nil, wrapError(op, err)
	}
	if doc.Volume == nil || !strings.EqualFold(doc.Volume.ID, id) {
		return nil, &cloud.Error{Op: op, Err: fmt.Errorf("the answer is not about this volume")}
	}
	return doc.Volume, nil
}
