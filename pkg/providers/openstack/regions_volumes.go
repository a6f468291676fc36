package openstack

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// regionalVolumes are the volumes of several regions. A volume's ID does not tell its region,
// so every region is asked.
type regionalVolumes struct {
	*Volumes // Ref is the same everywhere
	all      []*region
}

var _ cloud.Volumes = (*regionalVolumes)(nil)

// Find implements cloud.Volumes: a list in each region where there are many, and reads of what
// no list has.
func (v *regionalVolumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	ids := distinctIDs(refs)
	found := map[string][]cloud.Result[*cloud.Volume]{}
	if slices.ContainsFunc(v.all, func(r *region) bool { return r.volumes.listIsCheaper(len(ids)) }) {
		for _, known := range v.each(ctx, ids, (*Volumes).listed) {
			for n, id := range ids {
				if known[n].Err == nil {
					found[id] = append(found[id], known[n])
				}
			}
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return len(found[id]) > 0 })
	}
	if len(ids) > 0 {
		for _, read := range v.each(ctx, ids, (*Volumes).read) {
			for n, id := range ids {
				found[id] = append(found[id], read[n])
			}
		}
	}
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n] = decideVolume(ref.ID, found[ref.ID])
	}
	return out
}

// each asks every region in parallel.
func (v *regionalVolumes) each(ctx context.Context, ids []string, ask func(*Volumes, context.Context, []string) []cloud.Result[*cloud.Volume]) [][]cloud.Result[*cloud.Volume] {
	out := make([][]cloud.Result[*cloud.Volume], len(v.all))
	var g errgroup.Group
	for k, r := range v.all {
		g.Go(func() error {
			out[k] = askRegion(ctx, r.gates.volumes, len(ids), func(ctx context.Context) []cloud.Result[*cloud.Volume] { return ask(r.volumes, ctx, ids) })
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return out
}

// decideVolume makes one answer of those of the regions.
func decideVolume(id string, answers []cloud.Result[*cloud.Volume]) cloud.Result[*cloud.Volume] {
	var found *cloud.Volume
	var unsure, absent, none error
	for _, a := range answers {
		switch e := auth.AsError(a.Err); {
		case a.Err == nil && found != nil && found.Region != a.Value.Region:
			return cloud.Result[*cloud.Volume]{Err: cloud.Errorf(cloud.KindConflict, "volume %s is in both regions %s and %s; do they share one Cinder? Then name only one of them in cloud.conf",
				id, found.Region, a.Value.Region)}
		case a.Err == nil:
			found = a.Value
		case cloud.IsNotFound(a.Err):
			absent = a.Err
		case e != nil && e.Reason == cloudauth.NoEndpoint:
			none = a.Err // a region without Cinder has no volumes
		default:
			unsure = a.Err
		}
	}
	if found != nil {
		return cloud.Result[*cloud.Volume]{Value: found}
	}
	for _, err := range []error{unsure, absent} {
		if err != nil {
			return cloud.Result[*cloud.Volume]{Err: err}
		}
	}
	return cloud.Result[*cloud.Volume]{Err: none}
}
