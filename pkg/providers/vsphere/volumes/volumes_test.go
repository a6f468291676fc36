package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/zones"
)

func inTree(path string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: path}}}}
}

func csi(driver, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}}
}

func TestRef(t *testing.T) {
	const id, path = "0b1ee9c8-44ee-4a4f-9a0d-8d6d1d7b6a11", "[ds one] kubevols/a.vmdk"
	for name, tt := range map[string]struct {
		pv   *corev1.PersistentVolume
		want string
		kind cloud.Kind
	}{
		"in-tree":             {pv: inTree(path), want: path},
		"CSI":                 {pv: csi(csiDriver, id), want: id},
		"migrated":            {pv: csi(csiDriver, path), want: path},
		"placeholder":         {pv: inTree(cloud.VolumePlaceholder)},
		"CSI placeholder":     {pv: csi(csiDriver, cloud.VolumePlaceholder)},
		"a file volume":       {pv: csi(csiDriver, "file:"+id)},
		"another driver":      {pv: csi("nfs.csi.k8s.io", id)},
		"another source":      {pv: &corev1.PersistentVolume{}},
		"a UUID in-tree":      {pv: inTree(id), kind: cloud.KindInvalid},
		"no datastore":        {pv: inTree("kubevols/a.vmdk"), kind: cloud.KindInvalid},
		"no file":             {pv: inTree("[ds] "), kind: cloud.KindInvalid},
		"no name":             {pv: inTree("[] a.vmdk"), kind: cloud.KindInvalid},
		"two names":           {pv: inTree("[a[b] a.vmdk"), kind: cloud.KindInvalid},
		"empty":               {pv: inTree(""), kind: cloud.KindInvalid},
		"no handle":           {pv: csi(csiDriver, "x"), kind: cloud.KindInvalid},
		"a UUID in brackets":  {pv: csi(csiDriver, "{"+id+"}"), kind: cloud.KindInvalid},
		"a UUID without dash": {pv: csi(csiDriver, "0b1ee9c844ee4a4f9a0d8d6d1d7b6a11"), kind: cloud.KindInvalid},
	} {
		got, ok, err := New(nil, zones.New(nil, config.Labels{})).Ref(tt.pv)
		if got != (cloud.VolumeRef{ID: tt.want}) || ok != (tt.want != "") || (err != nil) != (tt.kind != cloud.KindUnknown) || cloud.KindOf(err) != tt.kind {
			t.Errorf("%s: %+v, %t, %v", name, got, ok, err)
		}
	}
}

// The driver's key is the category's, where there is one.
func TestTopologyKey(t *testing.T) {
	v := New(nil, zones.New(&api.Client{}, config.Labels{Zone: "k8s-zone", Region: "k8s-region"}))
	for key, pv := range map[string]*corev1.PersistentVolume{
		"": inTree("[ds] a.vmdk"), "topology.csi.vmware.com/k8s-zone": csi(csiDriver, "0b1ee9c8-44ee-4a4f-9a0d-8d6d1d7b6a11"),
	} {
		if ref, ok, err := v.Ref(pv); ref.TopologyKey != key || !ok || err != nil {
			t.Errorf("%+v, %t, %v; want the key %q", ref, ok, err, key)
		}
	}
}

func TestWhere(t *testing.T) {
	host := func(n string) api.Ref { return api.Ref{Type: "HostSystem", Value: n} }
	a, b, c := zones.Place{Zone: "a", Region: "r"}, zones.Place{Zone: "b", Region: "r"}, zones.Place{Zone: "c", Region: "s"}
	hosts := map[zones.Place][]api.Ref{a: {host("a1"), host("a2")}, b: {host("b1")}, c: {host("c1")}}
	store := func(name, url string, on ...api.Ref) api.Datastore {
		return api.Datastore{Name: name, URL: url, Hosts: on}
	}
	stores := []api.Datastore{
		store("shared", "ds:///1/", host("a1"), host("a2"), host("b1")), store("wide", "ds:///2/", host("a1"), host("a2"), host("c1")),
		store("local", "ds:///3/", host("a1")), store("half", "ds:///4/", host("a1"), host("b1")), store("nowhere", "ds:///5/", host("x")),
		store("twin", "ds:///6/", host("a1")), store("twin", "ds:///7/", host("b1")),
		store("stretched", "ds:///8/", host("a1")), store("stretched", "ds:///8/", host("a2")),
	}
	for name, tt := range map[string]struct {
		id, url string
		zones   map[zones.Place][]api.Ref
		want    cloud.Volume
		kind    cloud.Kind
	}{
		"by its URL":                       {id: "u", url: "ds:///1/", zones: hosts, want: cloud.Volume{Zones: []string{"a", "b"}, Region: "r"}},
		"by its name":                      {id: "[shared] f", zones: hosts, want: cloud.Volume{Zones: []string{"a", "b"}, Region: "r"}},
		"in two regions":                   {id: "u", url: "ds:///2/", zones: hosts, want: cloud.Volume{Zones: []string{"a", "c"}}},
		"on one host":                      {id: "u", url: "ds:///3/", zones: hosts, want: cloud.Volume{Zones: []string{"a"}, Region: "r"}},
		"a zone of which not all reach it": {id: "u", url: "ds:///4/", zones: hosts, want: cloud.Volume{Zones: []string{"b"}, Region: "r"}},
		"in two datacenters":               {id: "[stretched] f", zones: hosts, want: cloud.Volume{Zones: []string{"a"}, Region: "r"}},
		"without zones":                    {id: "u", url: "ds:///1/"},
		"in no zone":                       {id: "u", url: "ds:///5/", zones: hosts, kind: cloud.KindInvalid},
		"no host has tags":                 {id: "u", url: "ds:///1/", zones: map[zones.Place][]api.Ref{}, kind: cloud.KindInvalid},
		"two of the name":                  {id: "[twin] f", zones: hosts, kind: cloud.KindInvalid},
		"of another vCenter":               {id: "[other] f", zones: hosts, kind: cloud.KindNotFound},
		"of another datacenter":            {id: "u", url: "ds:///9/", zones: hosts, kind: cloud.KindInvalid},
	} {
		got, err := (&where{place: "p", stores: stores, zones: tt.zones}).volume(tt.id, tt.url)
		if tt.want.ID = tt.id; tt.kind != cloud.KindUnknown {
			if got != nil || cloud.KindOf(err) != tt.kind {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
