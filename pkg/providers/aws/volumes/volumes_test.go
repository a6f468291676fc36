package volumes_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/volumes"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func newVolumes(t *testing.T) (*apitest.Cloud, *volumes.Volumes) {
	t.Helper()
	c := apitest.Start(t)
	client, _ := c.Client("[Global]\nRegion = eu-central-1\n", cloud.Options{})
	return c, volumes.New(client)
}

func inTree(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: name}}}}
}

func csi(driver, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}}
}

func TestRef(t *testing.T) {
	_, v := newVolumes(t)
	const id, key = "vol-0123456789abcdef0", "topology.ebs.csi.aws.com/zone"
	for name, tt := range map[string]struct {
		pv   *corev1.PersistentVolume
		want cloud.VolumeRef
		ok   bool
		kind cloud.Kind
	}{
		"bare":                  {pv: inTree(id), want: cloud.VolumeRef{ID: id}, ok: true},
		"without a zone":        {pv: inTree("aws:///" + id), want: cloud.VolumeRef{ID: id}, ok: true},
		"with a zone":           {pv: inTree("aws://eu-central-1a/" + id), want: cloud.VolumeRef{ID: id}, ok: true},
		"CSI":                   {pv: csi("ebs.csi.aws.com", id), want: cloud.VolumeRef{ID: id, TopologyKey: key}, ok: true},
		"placeholder":           {pv: inTree(cloud.VolumePlaceholder)},
		"CSI placeholder":       {pv: csi("ebs.csi.aws.com", cloud.VolumePlaceholder)},
		"another driver":        {pv: csi("efs.csi.aws.com", "fs-1")},
		"another source":        {pv: &corev1.PersistentVolume{}},
		"the zone in the path":  {pv: inTree("aws:///eu-central-1a/" + id), kind: cloud.KindInvalid},
		"another scheme":        {pv: inTree("gce:///" + id), kind: cloud.KindInvalid},
		"no ID":                 {pv: inTree("aws:///x"), kind: cloud.KindInvalid},
		"empty":                 {pv: inTree(""), kind: cloud.KindInvalid},
		"a wildcard":            {pv: inTree("vol-*"), kind: cloud.KindInvalid},
		"a query":               {pv: inTree("aws:///" + id + "?x"), kind: cloud.KindInvalid},
		"CSI of another form":   {pv: csi("ebs.csi.aws.com", "aws:///"+id), kind: cloud.KindInvalid},
		"CSI that is no handle": {pv: csi("ebs.csi.aws.com", "x"), kind: cloud.KindInvalid},
	} {
		got, ok, err := v.Ref(tt.pv)
		if got != tt.want || ok != tt.ok || (err != nil) != (tt.kind != cloud.KindUnknown) || cloud.KindOf(err) != tt.kind {
			t.Errorf("%s: %+v, %t, %v", name, got, ok, err)
		}
	}
	want := []cloud.VolumeSource{{Field: "awsElasticBlockStore", NameField: "volumeID"}, {Field: "csi", Driver: "ebs.csi.aws.com", NameField: "volumeHandle"}}
	if diff := cmp.Diff(want, v.Sources()); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestFindReadsManyAtOnce(t *testing.T) {
	for _, tt := range []struct{ there, unknown, calls int }{{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {199, 1, 1}, {201, 0, 2}, {1000, 0, 5}} {
		c, v := newVolumes(t)
		var refs []cloud.VolumeRef
		for n := range tt.there {
			id := fmt.Sprintf("vol-%08x", n)
			c.EC2.AddVolume(ec2.Volume{ID: id})
			refs = append(refs, cloud.VolumeRef{ID: id, TopologyKey: "k"}, cloud.VolumeRef{ID: id})
		}
		for n := range tt.unknown {
			refs = append(refs, cloud.VolumeRef{ID: fmt.Sprintf("vol-ffff%04x", n)})
		}
		for n, r := range v.Find(t.Context(), refs) {
			if n >= 2*tt.there {
				if !cloud.IsNotFound(r.Err) {
					t.Errorf("%s: %+v, %v", refs[n].ID, r.Value, r.Err)
				}
				continue
			}
			want := &cloud.Volume{ID: refs[n].ID, Zones: []string{"eu-central-1a"}, Region: "eu-central-1"}
			if diff := cmp.Diff(want, r.Value); diff != "" || r.Err != nil {
				t.Fatalf("%v (-want +got):\n%s", r.Err, diff)
			}
		}
		if calls := len(c.Requests()); calls != tt.calls {
			t.Errorf("%d volumes and %d that are not there: %d calls, want %d", tt.there, tt.unknown, calls, tt.calls)
		}
	}
}

func TestGetAndFailures(t *testing.T) {
	c, v := newVolumes(t)
	c.EC2.AddZone(ec2.Zone{Name: "us-west-2-lax-1a"})
	c.EC2.AddVolume(ec2.Volume{ID: "vol-00000001", Zone: "us-west-2-lax-1a"})
	if got, err := v.Get(t.Context(), cloud.VolumeRef{ID: "vol-00000001"}); err != nil || !cmp.Equal(got.Zones, []string{"us-west-2-lax-1a"}) {
		t.Errorf("%+v, %v", got, err)
	}
	nowhere := apitest.Body("<DescribeVolumesResponse><volumeSet><item><volumeId>vol-00000002</volumeId></item></volumeSet></DescribeVolumesResponse>")
	down := apitest.Fault{Status: http.StatusServiceUnavailable, Code: "Unavailable", Message: "m"}
	for name, tt := range map[string]struct {
		id     string
		faults []apitest.Fault
		want   cloud.Kind
	}{
		"gone": {"vol-00000003", nil, cloud.KindNotFound}, "without a zone": {"vol-00000002", []apitest.Fault{nowhere, nowhere}, cloud.KindUnknown}, "no ID": {"x", nil, cloud.KindInvalid},
		"down": {"vol-00000001", []apitest.Fault{down, down}, cloud.KindUnavailable},
	} {
		c.Fail("DescribeVolumes", tt.faults...)
		if got, err := v.Get(t.Context(), cloud.VolumeRef{ID: tt.id}); cloud.KindOf(err) != tt.want || err == nil {
			t.Errorf("Get of one %s: %+v, %v", name, got, err)
		}
		if r := v.Find(t.Context(), []cloud.VolumeRef{{ID: tt.id}})[0]; cloud.KindOf(r.Err) != tt.want || r.Err == nil {
			t.Errorf("Find of one %s: %+v, %v", name, r.Value, r.Err)
		}
	}
}
