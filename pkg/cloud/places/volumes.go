package places

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// volumes are those of all places. A volume's ID does not tell its place, so that every one is asked.
type volumes struct {
	cloud.Volumes // Sources and Ref are the same everywhere
	*joined
	places []*member[cloud.Volumes]
}

var _ cloud.Volumes = (*volumes)(nil)

func newVolumes(j *joined) *volumes {
	places := membersOf(j, func(p Place) (cloud.Volumes, bool) { return p.Volumes, p.Volumes != nil })
	return &volumes{Volumes: places[0].next, joined: j, places: places}
}

// Find implements cloud.Volumes.
func (v *volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	answers := each(ctx, v.places, len(refs), func(ctx context.Context, p cloud.Volumes) []cloud.Result[*cloud.Volume] {
		return p.Find(ctx, refs)
	})
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n] = v.decide(ref, n, answers)
	}
	return out
}

// Get implements cloud.Volumes.
func (v *volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	r := v.decide(ref, 0, each(ctx, v.places, 1, func(ctx context.Context, p cloud.Volumes) []cloud.Result[*cloud.Volume] {
		return one(p.Get(ctx, ref))
	}))
	return r.Value, r.Err
}

// decide makes one answer of the nth ones of the places.
func (v *volumes) decide(ref cloud.VolumeRef, n int, answers [][]cloud.Result[*cloud.Volume]) cloud.Result[*cloud.Volume] {
	var found cloud.Result[*cloud.Volume]
	var in string
	var unsure, absent, none error
	for k, p := range v.places {
		switch a := answers[k][n]; {
		case a.Err == nil && found.Value != nil:
			return cloud.Result[*cloud.Volume]{Err: cloud.Errorf(cloud.KindConflict, "volume %s is in both %ss %s and %s; do they share one store of volumes? Then name only one of them in the configuration",
				ref.ID, v.words.Place, in, p.name)}
		case a.Err == nil:
			found, in = a, p.name
		case cloud.IsNotFound(a.Err):
			absent = a.Err
		case cloud.KindOf(a.Err) == cloud.KindUnsupported:
			none = a.Err // a place that has no volumes
		default:
			unsure = a.Err
		}
	}
	switch {
	case found.Value != nil:
		return found
	case unsure != nil:
		found.Err = unsure
	case absent != nil:
		found.Err = absent
	default:
		found.Err = none
	}
	return found
}
