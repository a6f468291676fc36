package pvlabel_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// volumes is a cloud whose volumes are named after what it answers about them.
type volumes struct {
	asked []cloud.VolumeRef
}

var known = map[string]cloud.Volume{
	"zonal":                 {Zones: []string{"az1"}, Region: "RegionOne"},
	"regional":              {Zones: []string{"az3", "az1", "az2", "az1"}, Region: "RegionOne"},
	"zone-only":             {Zones: []string{"az1"}},
	"no-zone":               {Region: "RegionOne"},
	"nowhere":               {},
	"odd-zone":              {Zones: []string{"hall 3, rack 2"}},
	"vol-0123456789abcdef0": {Zones: []string{"us-east-1a"}, Region: "us-east-1"},
	"pd-1":                  {Zones: []string{"europe-west1-b"}, Region: "europe-west1"},
	"pd-regional":           {Zones: []string{"europe-west1-c", "europe-west1-b"}, Region: "europe-west1"},
	"disk-1":                {Zones: []string{"westeurope-2"}, Region: "westeurope"},
	"[ds] volumes/1.vmdk":   {Zones: []string{"rack-1"}, Region: "hall-1"},

	"broken-az": {Zones: []string{""}, Region: "RegionOne"},
}

var failing = map[string]error{
	"gone":      cloud.Errorf(cloud.KindNotFound, "get volume gone: itemNotFound"),
	"denied":    cloud.Errorf(cloud.KindDenied, "get volume denied: 403 Forbidden"),
	"throttled": cloud.Errorf(cloud.KindThrottled, "get volume throttled: 429 Too Many Requests"),
	"down":      errors.New("get volume down: dial tcp 127.0.0.1:8776: connection refused"),
	"slow":      fmt.Errorf("get volume slow: %w", context.DeadlineExceeded),
	"twice":     cloud.Errorf(cloud.KindConflict, "volume twice is in both regions RegionOne and RegionTwo"),
	"invalid":   cloud.Errorf(cloud.KindInvalid, "two volumes have this name"),
}

func (*volumes) Sources() []cloud.VolumeSource {
	return []cloud.VolumeSource{
		{Field: "awsElasticBlockStore", NameField: "volumeID"},
		{Field: "gcePersistentDisk", NameField: "pdName"},
		{Field: "azureDisk", NameField: "diskName"},
		{Field: "vsphereVolume", NameField: "volumePath"},
		{Field: "cinder", NameField: "volumeID"},
		{Field: "csi", Driver: csiDriver, NameField: "volumeHandle"},
	}
}

const csiDriver = "cinder.csi.openstack.org"

func (*volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	var ref cloud.VolumeRef
	switch s := pv.Spec; {
	case s.AWSElasticBlockStore != nil:
		ref.ID = s.AWSElasticBlockStore.VolumeID
	case s.GCEPersistentDisk != nil:
		ref.ID = s.GCEPersistentDisk.PDName
	case s.AzureDisk != nil:
		ref.ID = s.AzureDisk.DiskName
	case s.VsphereVolume != nil:
		ref.ID = s.VsphereVolume.VolumePath
	case s.Cinder != nil:
		ref.ID = s.Cinder.VolumeID
	case s.CSI != nil && s.CSI.Driver == csiDriver:
		ref = cloud.VolumeRef{ID: s.CSI.VolumeHandle, TopologyKey: "topology.cinder.csi.openstack.org/zone"}
	default:
		return cloud.VolumeRef{}, false, nil
	}
	switch ref.ID {
	case cloud.VolumePlaceholder:
		return cloud.VolumeRef{}, false, nil
	case "", "a/b":
		return cloud.VolumeRef{}, false, cloud.Errorf(cloud.KindInvalid, "spec.cinder.volumeID %q is not a volume ID", ref.ID)
	}
	return ref, true, nil
}

func (v *volumes) Find(_ context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	v.asked = append(v.asked, refs...)
	var results []cloud.Result[*cloud.Volume]
	for _, ref := range refs {
		vol, ok := known[ref.ID]
		vol.ID = ref.ID
		switch {
		case failing[ref.ID] != nil:
			results = append(results, cloud.Result[*cloud.Volume]{Err: failing[ref.ID]})
		case ref.ID == "answerless":
		case ok:
			results = append(results, cloud.Result[*cloud.Volume]{Value: &vol})
		default:
			results = append(results, cloud.Result[*cloud.Volume]{})
		}
	}
	return results
}

func (v *volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	r := v.Find(ctx, []cloud.VolumeRef{ref})[0]
	return r.Value, r.Err
}
