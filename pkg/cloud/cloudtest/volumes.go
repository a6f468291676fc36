package cloudtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// volumeRef makes a volume and asks the provider for its reference.
func volumeRef(t *T, x *suite, p *process) (ref cloud.VolumeRef, zone string, remove func()) {
	if p.Volumes == nil {
		t.Fatalf("the provider has no volumes")
	}
	pv, zone, err := x.World.MakeVolume(t.Ctx)
	t.Must(err)
	remove = func() { t.Must(x.World.DeleteVolume(t.Ctx, pv)) }
	t.Cleanup(remove)
	checkSources(t, p.Volumes, pv)
	ref, ok, err := p.Volumes.Ref(pv)
	if err != nil || !ok {
		t.Fatalf("Ref: %v, %v; want the volume", ok, err)
	}
	return ref, zone, remove
}

func checkVolume(t *T, x *suite) {
	p := x.start(t)
	ref, zone, _ := volumeRef(t, x, p)
	r := p.Volumes.Find(t.Ctx, []cloud.VolumeRef{ref})[0]
	if r.Err != nil || r.Value.ID != ref.ID || !slices.Equal(r.Value.Zones, []string{zone}) || r.Value.Region == "" {
		t.Errorf("Find: %+v, %v; want volume %s in zone %s and a region", r.Value, r.Err, ref.ID, zone)
	}
}

func checkVolumeGone(t *T, x *suite) {
	p := x.start(t)
	ref, _, remove := volumeRef(t, x, p)
	remove()
	if r := p.Volumes.Find(t.Ctx, []cloud.VolumeRef{ref})[0]; !cloud.IsNotFound(r.Err) {
		t.Errorf("Find of a deleted volume: %+v, %v; want KindNotFound", r.Value, r.Err)
	}
}

// checkSources holds Sources to what Ref knows: every source of PersistentVolumes that there
// is, beside that of pv.
func checkSources(t *T, v cloud.Volumes, pv *corev1.PersistentVolume) {
	sources := v.Sources()
	for _, s := range sources {
		if got, ok, err := v.Ref(sourced(t, s, cloud.VolumePlaceholder)); ok || err != nil {
			t.Errorf("Ref of source %+v without a volume yet: %+v, %v, %v; want nothing", s, got, ok, err)
		}
		if _, ok, err := v.Ref(sourced(t, s, "anything")); !ok && err == nil {
			t.Errorf("Ref does not know source %+v, which is one of Sources", s)
		}
	}
	all := reflect.TypeFor[corev1.PersistentVolumeSource]()
	for n := range all.NumField() {
		field, _, _ := strings.Cut(all.Field(n).Tag.Get("json"), ",")
		if field != "csi" && slices.ContainsFunc(sources, func(s cloud.VolumeSource) bool { return s.Field == field }) {
			continue
		}
		other := cloud.VolumeSource{Field: field, Driver: "other.example.com", NameField: "volumeHandle"}
		if got, ok, err := v.Ref(sourced(t, other, "anything")); ok || err != nil {
			t.Errorf("Ref of source %s, which is none of Sources: %+v, %v, %v; want nothing", field, got, ok, err)
		}
	}
	if !slices.ContainsFunc(sources, func(s cloud.VolumeSource) bool {
		return reflect.DeepEqual(fields(t, pv.Spec.PersistentVolumeSource), []string{s.Field})
	}) {
		t.Errorf("Sources are %+v, and not that of PersistentVolume %+v", sources, pv.Spec.PersistentVolumeSource)
	}
}

// sourced is a PersistentVolume of the source.
func sourced(t *T, s cloud.VolumeSource, name string) *corev1.PersistentVolume {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{s.Field: map[string]string{s.NameField: name, "driver": s.Driver}}})
	t.Must(err)
	pv := &corev1.PersistentVolume{}
	t.Must(json.Unmarshal(raw, pv))
	return pv
}

func fields(t *T, source corev1.PersistentVolumeSource) []string {
	raw, err := json.Marshal(source)
	t.Must(err)
	set := map[string]json.RawMessage{}
	t.Must(json.Unmarshal(raw, &set))
	var out []string
	for field := range set {
		out = append(out, field)
	}
	return out
}
