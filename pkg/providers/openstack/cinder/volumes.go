package cinder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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

var _ cloud.Volumes = (*Volumes)(nil)

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

// Find implements cloud.Volumes: from a list where that is cheaper, else by reading each.
func (v *Volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	ids := distinctIDs(refs)
	answers := make(map[string]cloud.Result[*cloud.Volume], len(ids))
	read := v.read
	if v.listIsCheaper(len(ids)) {
		read = v.listed
	}
	for n, r := range read(ctx, ids) {
		answers[ids[n]] = r
	}
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n] = answers[ref.ID]
	}
	return out
}

// Get implements cloud.Volumes.
func (v *Volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	vol, err := v.get(ctx, ref.ID)
	if err != nil {
		return nil, err
	}
	return v.answer(vol), nil
}

// listed answers from a list of volumes; KindNotFound means "not seen in it".
func (v *Volumes) listed(ctx context.Context, ids []string) []cloud.Result[*cloud.Volume] {
	found, err := v.list(ctx, ids)
	if err != nil {
		return slices.Repeat([]cloud.Result[*cloud.Volume]{{Err: err}}, len(ids))
	}
	out := make([]cloud.Result[*cloud.Volume], len(ids))
	for n, id := range ids {
		if vol := found[id]; vol != nil {
			out[n].Value = v.answer(vol)
		} else {
			out[n].Err = cloud.Errorf(cloud.KindNotFound, "volume %s is not in the list of volumes", id)
		}
	}
	return out
}

// read reads the volumes one by one, some at a time.
func (v *Volumes) read(ctx context.Context, ids []string) []cloud.Result[*cloud.Volume] {
	out := make([]cloud.Result[*cloud.Volume], len(ids))
	var g errgroup.Group
	g.SetLimit(volumeReads)
	for n, id := range ids {
		g.Go(func() error {
			out[n].Value, out[n].Err = v.Get(ctx, cloud.VolumeRef{ID: id})
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return out
}

// distinctIDs returns the IDs of refs, sorted.
func distinctIDs(refs []cloud.VolumeRef) []string {
	ids := make([]string, len(refs))
	for n, ref := range refs {
		ids[n] = ref.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// listIsCheaper reports whether so many volumes are read better from a list, as far as is known.
func (v *Volumes) listIsCheaper(wanted int) bool {
	return wanted > pagePays*max(1, int(v.pages.Load()))
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

// list reads volumes until it has all of ids, or has read one page more than they are worth:
// then so many are not looked for in the list again.
func (v *Volumes) list(ctx context.Context, ids []string) (map[string]*volume, error) {
	found := make(map[string]*volume, len(ids))
	for _, id := range ids {
		found[id] = nil
	}
	missing, pages, most := len(found), 0, max(1, len(ids)/pagePays)
	err := api.Pages(ctx, v.c.On(ctx, api.BlockStorage, "list volumes"), "volumes/detail", nil, func(page []volume) bool {
		for n := range page {
			id := strings.ToLower(page[n].ID)
			if known, wanted := found[id]; wanted && known == nil {
				found[id] = &page[n]
				missing--
			}
		}
		pages++
		return missing > 0 && pages <= most // one more than it is worth tells whether there are more
	})
	if err != nil {
		return nil, err
	}
	v.pages.Store(int64(pages))
	return found, nil
}

func (v *Volumes) get(ctx context.Context, id string) (*volume, error) {
	if !text.IsUUID(id) {
		return nil, cloud.Errorf(cloud.KindInvalid, "%.100q is not a Cinder volume's UUID", id)
	}
	op := "get volume " + id
	vol, err := api.Get[volume](ctx, v.c.On(ctx, api.BlockStorage, op), "volume", "volumes", id)
	if err == nil && !strings.EqualFold(vol.ID, id) {
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer is not about this volume")}
	}
	return vol, err
}
