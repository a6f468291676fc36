// Package volumes answers where EBS' volumes are: pkg/cloud's Volumes, of PersistentVolumes of the in-tree plugin and of the EBS
// CSI driver.
//
// It attaches nothing, and makes no labels: pkg/pv does.
package volumes

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
)

const (
	csiDriver      = "ebs.csi.aws.com"
	csiTopologyKey = "topology.ebs.csi.aws.com/zone"
)

// Volumes answers for EBS' volumes. Find reads 200 of them with a call, by a filter, which passes over what there is not.
type Volumes struct{ c *api.Client }

var _ cloud.Volumes = (*Volumes)(nil)

// New makes the volumes of the client's region.
func New(c *api.Client) *Volumes { return &Volumes{c: c} }

// Sources implements cloud.Volumes.
func (v *Volumes) Sources() []cloud.VolumeSource {
	return []cloud.VolumeSource{
		{Field: "awsElasticBlockStore", NameField: "volumeID"},
		{Field: "csi", Driver: csiDriver, NameField: "volumeHandle"},
	}
}

// Ref implements cloud.Volumes. In-tree volumes are named vol-…, aws:///vol-… or aws://<zone>/vol-….
func (v *Volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	var ref cloud.VolumeRef
	var name, field string
	switch {
	case pv.Spec.AWSElasticBlockStore != nil:
		name, field = pv.Spec.AWSElasticBlockStore.VolumeID, "spec.awsElasticBlockStore.volumeID"
		ref.ID = inTreeID(name)
	case pv.Spec.CSI != nil && pv.Spec.CSI.Driver == csiDriver:
		name, field = pv.Spec.CSI.VolumeHandle, "spec.csi.volumeHandle"
		ref = cloud.VolumeRef{ID: name, TopologyKey: csiTopologyKey}
	default:
		return cloud.VolumeRef{}, false, nil
	}
	if name == cloud.VolumePlaceholder {
		return cloud.VolumeRef{}, false, nil
	}
	if !isVolumeID(ref.ID) {
		return cloud.VolumeRef{}, false, cloud.Errorf(cloud.KindInvalid, "%s %.100q is not an EBS volume's ID (vol-…)", field, name)
	}
	return ref, true, nil
}

// inTreeID is the ID in the name of an in-tree volume.
func inTreeID(name string) string {
	if !strings.Contains(name, "://") {
		return name
	}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "aws" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	return strings.Trim(u.Path, "/")
}

// isVolumeID reports whether s may be a volume's ID: vol- and small letters and digits, so that it means nothing else in a filter.
func isVolumeID(s string) bool {
	rest, ok := strings.CutPrefix(s, "vol-")
	return ok && rest != "" && len(rest) <= 64 && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// Find implements cloud.Volumes.
func (v *Volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	var ids []string
	for _, ref := range refs {
		if isVolumeID(ref.ID) {
			ids = append(ids, ref.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	answers := make(map[string]cloud.Result[*cloud.Volume], len(ids))
	for chunk := range slices.Chunk(ids, api.MaxFilterValues) {
		found, err := v.c.Volumes(ctx, api.Filter("volume-id", chunk...))
		for _, id := range chunk {
			answers[id] = cloud.Result[*cloud.Volume]{Err: err}
			if err == nil {
				answers[id] = cloud.Result[*cloud.Volume]{Err: cloud.Errorf(cloud.KindNotFound, "volume %s is not in the list of volumes", id)}
			}
		}
		for n := range found {
			if id := aws.ToString(found[n].VolumeId); err == nil && isVolumeID(id) {
				vol, err := v.volume(ctx, &found[n])
				answers[id] = cloud.Result[*cloud.Volume]{Value: vol, Err: err}
			}
		}
	}
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		if !isVolumeID(ref.ID) {
			out[n].Err = noID(ref.ID)
			continue
		}
		out[n] = answers[ref.ID]
	}
	return out
}

// Get implements cloud.Volumes.
func (v *Volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	if !isVolumeID(ref.ID) {
		return nil, noID(ref.ID)
	}
	vol, err := v.c.Volume(ctx, ref.ID)
	if err != nil {
		return nil, err
	}
	return v.volume(ctx, vol)
}

func noID(id string) error {
	return cloud.Errorf(cloud.KindInvalid, "%.100q is not an EBS volume's ID (vol-…)", id)
}

// volume is the answer about a volume. Each is in one zone; one without any is no answer.
func (v *Volumes) volume(ctx context.Context, vol *types.Volume) (*cloud.Volume, error) {
	zone := aws.ToString(vol.AvailabilityZone)
	if zone == "" {
		return nil, cloud.Errorf(cloud.KindUnknown, "EC2 does not say in which zone volume %s is", aws.ToString(vol.VolumeId))
	}
	region, err := v.c.Region(ctx)
	if err != nil {
		return nil, err
	}
	return &cloud.Volume{ID: aws.ToString(vol.VolumeId), Zones: []string{zone}, Region: region}, nil
}
