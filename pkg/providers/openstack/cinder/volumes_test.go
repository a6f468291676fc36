package cinder

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func cinderPV(id string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	pv.Spec.Cinder = &corev1.CinderPersistentVolumeSource{VolumeID: id}
	return pv
}

func csiPV(driver, handle string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	return pv
}

func TestVolumeRef(t *testing.T) {
	tests := []struct {
		name   string
		pv     *corev1.PersistentVolume
		ignore bool
		want   cloud.VolumeRef
		ok     bool
		err    bool
	}{
		{name: "in-tree", pv: cinderPV(idA), want: cloud.VolumeRef{ID: idA}, ok: true},
		{name: "CSI", pv: csiPV("cinder.csi.openstack.org", idA), want: cloud.VolumeRef{ID: idA, TopologyKey: "topology.cinder.csi.openstack.org/zone"}, ok: true},
		{name: "upper case", pv: cinderPV("AAAAAAAA-0000-4000-8000-000000000001"), want: cloud.VolumeRef{ID: idA}, ok: true},
		{name: "placeholder", pv: cinderPV("placeholder-for-provisioning")},
		{name: "CSI placeholder", pv: csiPV("cinder.csi.openstack.org", "placeholder-for-provisioning")},
		{name: "other driver", pv: csiPV("ebs.csi.aws.com", "vol-1")},
		{name: "other source", pv: &corev1.PersistentVolume{}},
		{name: "zones ignored", pv: cinderPV(idA), ignore: true},
		{name: "zones ignored, malformed", pv: cinderPV("x"), ignore: true},
		{name: "empty", pv: cinderPV(""), err: true},
		{name: "a name", pv: cinderPV("data-1"), err: true},
		{name: "a path", pv: csiPV("cinder.csi.openstack.org", "../"+idA), err: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := &Volumes{ignoreZone: tt.ignore}
			got, ok, err := v.Ref(tt.pv)
			if got != tt.want || ok != tt.ok || (err != nil) != tt.err {
				t.Errorf("got %+v, %v, %v; want %+v, %v, error %v", got, ok, err, tt.want, tt.ok, tt.err)
			}
			if tt.err && cloud.KindOf(err) != cloud.KindInvalid {
				t.Errorf("kind %v, want Invalid", cloud.KindOf(err))
			}
		})
	}
}

// makeVolumes makes a volume in each of the zones.
func makeVolumes(t *testing.T, p *cloud.Provider, zones ...string) []cloud.VolumeRef {
	t.Helper()
	ctx := apitest.Context(t)
	sc, err := p.Volumes.(*Volumes).c.Service(ctx, api.BlockStorage)
	if err != nil {
		t.Fatal(err)
	}
	var refs []cloud.VolumeRef
	for _, zone := range zones {
		v, err := volumes.Create(ctx, sc, volumes.CreateOpts{Size: 1, AvailabilityZone: zone}, nil).Extract()
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, cloud.VolumeRef{ID: v.ID})
	}
	return refs
}

// findVolumes asks as decorate does: what a batch did not have is read directly.
func findVolumes(t *testing.T, p *cloud.Provider, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	t.Helper()
	ctx := apitest.Context(t)
	results := p.Volumes.Find(ctx, refs)
	for n, r := range results {
		if cloud.IsNotFound(r.Err) {
			results[n].Value, results[n].Err = p.Volumes.Get(ctx, refs[n])
		}
	}
	return results
}

func TestVolumesFind(t *testing.T) {
	sim := ossim.ForTest(t)
	p := newProvider(t, sim, "")
	refs := makeVolumes(t, p, "az1", "az2", "az1")
	refs = append(refs, refs[1], cloud.VolumeRef{ID: missingID})
	want := []string{"az1", "az2", "az1", "az2", ""}
	for range pagePays {
		refs, want = append(refs, cloud.VolumeRef{ID: sim.AddVolume("many", "az1").ID}), append(want, "az1")
	}
	for _, tt := range []struct {
		name     string
		from, to int
		calls    int
	}{
		{"one", 0, 1, 1}, {"one of three twice", 0, 4, 3}, {"missing alone", 4, 5, 2}, {"none", 0, 0, 0},
		{"not many enough for a list", 5, len(refs), pagePays}, {"many from a list", 3, len(refs), 2}, {"what the list lacks is read", 0, len(refs), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim.ResetRequests()
			defer apitest.LogCalls(t, sim)
			for n, r := range findVolumes(t, p, refs[tt.from:tt.to]) {
				n += tt.from
				if want[n] == "" {
					if !cloud.IsNotFound(r.Err) {
						t.Errorf("missing volume: %v, %v", r.Value, r.Err)
					}
					continue
				}
				if diff := cmp.Diff(cloud.Result[*cloud.Volume]{Value: &cloud.Volume{ID: refs[n].ID, Zones: []string{want[n]}, Region: "RegionOne"}}, r); diff != "" {
					t.Errorf("volume (-want +got):\n%s", diff)
				}
			}
			if n := apitest.Calls(sim); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
		})
	}
}

// TestVolumesOfLargeProject: a list is read as far as it is worth it, and not again for so few.
func TestVolumesOfLargeProject(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{MaxLimit: 60})
	p := newProvider(t, sim, "")
	refs := make([]cloud.VolumeRef, 400) // seven pages, newest volumes first
	for n := range refs {
		refs[n].ID = sim.AddVolume("v", "az1").ID
	}
	for _, tt := range []struct {
		name     string
		from, to int
		calls    int
	}{
		{"few: reads", 0, 50, 50},
		{"old ones: three pages in vain, then reads", 0, 101, 104},
		{"next ones, some more: reads", 101, 240, 139},
		{"many: the list", 0, 400, 7},
		{"fewer than its pages are worth: reads", 40, 390, 350},
		{"the newest: the list only as far as needed", 40, 400, 6},
		{"which is remembered", 95, 400, 6},
	} {
		sim.ResetRequests()
		for n, r := range findVolumes(t, p, refs[tt.from:tt.to]) {
			if r.Err != nil || r.Value.ID != refs[tt.from+n].ID {
				t.Errorf("%s: volume %d: %+v, %v", tt.name, n, r.Value, r.Err)
			}
		}
		if n := apitest.Calls(sim); n != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.name, n, tt.calls)
		}
	}
}

func TestVolumesFindIsNeverNotFoundInTrouble(t *testing.T) {
	sim := ossim.ForTest(t)
	p := newProvider(t, sim, "")
	refs := makeVolumes(t, p, slices.Repeat([]string{"az1"}, pagePays+1)...)
	for name, fault := range map[string]ossim.Fault{
		"401": {Status: 401}, "403": {Status: 403}, "404 page": {Status: 404, Body: "<html>not found</html>"}, "429": {Status: 429},
		"500": {Status: 500}, "reset": {Reset: true}, "truncated": {Truncate: true}, "no key": {Body: "{}"}, "empty list": {EmptyList: true}, "short list": {ShortList: true},
	} {
		t.Run(name, func(t *testing.T) {
			fault.Service = "volume"
			defer sim.AddFault(fault)()
			for _, n := range []int{1, len(refs)} {
				for _, r := range findVolumes(t, p, refs[:n]) {
					if cloud.IsNotFound(r.Err) {
						t.Errorf("NotFound: %v", r.Err)
					}
					if r.Err == nil && !fault.EmptyList && !fault.ShortList {
						t.Errorf("an answer in trouble: %+v", r.Value)
					}
				}
			}
		})
	}
}
