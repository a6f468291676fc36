package cinder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	csiDriver      = "cinder.csi.openstack.org"
	csiTopologyKey = "topology.cinder.csi.openstack.org/zone"
	// pagePays is how many volumes one page of the list is worth: a page is a thousand volumes,
	// which cost the cloud and us more than some reads, and come later.
	pagePays = 50
	// volumeReads is how many volumes are read at a time.
	volumeReads = 8
)

// Volumes answers for Cinder volumes: of in-tree cinder PersistentVolumes and of those of
// the Cinder CSI driver.
type Volumes struct {
	c *api.Client
	// ignoreZone says that no PersistentVolume is ours.
	ignoreZone bool
	// pages is how many pages of the list of volumes were needed when it was read last, as far
	// as that is known: Cinder lists a whole project's, and cannot be asked for those of some IDs.
	pages atomic.Int64
}

// New makes the volumes of a region, none of them ours with ignoreZone.
func New(c *api.Client, ignoreZone bool) *Volumes { return &Volumes{c: c, ignoreZone: ignoreZone} }

// Sources implements cloud.Volumes.
func (v *Volumes) Sources() []cloud.VolumeSource {
	if v.ignoreZone {
		return nil
	}
	return []cloud.VolumeSource{
		{Field: "cinder", NameField: "volumeID"},
		{Field: "csi", Driver: csiDriver, NameField: "volumeHandle"},
	}
}

// Ref implements cloud.Volumes. With [BlockStorage] ignore-volume-az no PersistentVolume is
// ours: they get no labels, as the key has always meant.
func (v *Volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	if v.ignoreZone {
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
	if ref.ID == cloud.VolumePlaceholder {
		return cloud.VolumeRef{}, false, nil
	}
	if !text.IsUUID(ref.ID) {
		return cloud.VolumeRef{}, false, cloud.Errorf(cloud.KindInvalid, "%s %.100q is not a Cinder volume's UUID", field, ref.ID)
	}
	ref.ID = strings.ToLower(ref.ID)
	return ref, true, nil
}

// Find implements cloud.Volumes: from a list where that is cheaper, as far as is known, else by reading
// each, some at a time.
func (v *Volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	answers := make(map[string]*cloud.Result[*cloud.Volume], len(refs))
	for _, ref := range refs {
		answers[ref.ID] = &cloud.Result[*cloud.Volume]{}
	}
	if len(answers) > pagePays*max(1, int(v.pages.Load())) {
		v.list(ctx, answers)
	} else {
		inflight.Each(volumeReads, slices.All(slices.Sorted(maps.Keys(answers))), func(_ int, id string) {
			answers[id].Value, answers[id].Err = v.Get(ctx, cloud.VolumeRef{ID: id})
		})
	}
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n] = *answers[ref.ID]
	}
	return out
}

// Get implements cloud.Volumes.
func (v *Volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	if !text.IsUUID(ref.ID) {
		return nil, cloud.Errorf(cloud.KindInvalid, "%.100q is not a Cinder volume's UUID", ref.ID)
	}
	op := "get volume " + ref.ID
	vol, err := api.Get[volume](ctx, v.c.On(ctx, api.BlockStorage, op), "volume", "volumes", ref.ID)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(vol.ID, ref.ID) {
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer is not about this volume")}
	}
	return v.answer(vol), nil
}

// volume is what is read of a Cinder volume.
type volume struct {
	ID               string `json:"id"`
	AvailabilityZone string `json:"availability_zone"`
}

func (v *Volumes) answer(vol *volume) *cloud.Volume {
	out := &cloud.Volume{ID: vol.ID, Region: v.c.Region()}
	// As the zone label of Nodes, or the two would never match.
	if zone := text.LabelValue(vol.AvailabilityZone); zone != "" {
		out.Zones = []string{zone}
	}
	return out
}

// list answers from a list of volumes, where KindNotFound means "not seen in it". It reads until it has
// all, or one page more than they are worth: then so many are not looked for in the list again.
func (v *Volumes) list(ctx context.Context, answers map[string]*cloud.Result[*cloud.Volume]) {
	missing, pages, most := len(answers), 0, max(1, len(answers)/pagePays)
	err := api.Pages(ctx, v.c.On(ctx, api.BlockStorage, "list volumes"), "volumes/detail", nil, func(page []volume) bool {
		for _, vol := range page {
			if r := answers[strings.ToLower(vol.ID)]; r != nil && r.Value == nil {
				r.Value = v.answer(&vol)
				missing--
			}
		}
		pages++
		return missing > 0 && pages <= most // one more than it is worth tells whether there are more
	})
	if err == nil {
		v.pages.Store(int64(pages))
	}
	for id, r := range answers {
		switch {
		case err != nil:
			*r = cloud.Result[*cloud.Volume]{Err: err}
		case r.Value == nil:
			r.Err = cloud.Errorf(cloud.KindNotFound, "volume %s is not in the list of volumes", id)
		}
	}
}
