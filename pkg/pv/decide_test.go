package pv_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestDecide(t *testing.T) {
	const zone, region, own = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "topology.example.com/zone"
	tests := map[string]struct {
		labels map[string]string
		terms  []corev1.NodeSelectorTerm
		volume cloud.Volume
		key    string
		want   pv.Mutation
	}{
		"nothing known": {want: pv.Mutation{Labels: map[string]string{}}},
		"zone and region": {
			volume: cloud.Volume{Zones: []string{"b", "a"}, Region: "r"},
			want: pv.Mutation{
				Labels:       map[string]string{zone: "a__b", region: "r"},
				Requirements: []corev1.NodeSelectorRequirement{in(region, "r"), in(zone, "a", "b")},
			},
		},
		"one zone whose name looks like two stays one": {
			volume: cloud.Volume{Zones: []string{"a__b"}},
			want: pv.Mutation{
				Labels:       map[string]string{zone: "a__b"},
				Requirements: []corev1.NodeSelectorRequirement{in(zone, "a__b")},
			},
		},
		"driver's key": {
			volume: cloud.Volume{Zones: []string{"a"}}, key: own,
			want: pv.Mutation{
				Labels:       map[string]string{zone: "a"},
				Requirements: []corev1.NodeSelectorRequirement{in(own, "a"), in(zone, "a")},
			},
		},
		"driver's key stands already": {
			volume: cloud.Volume{Zones: []string{"a"}}, key: own,
			terms: []corev1.NodeSelectorTerm{{}, {MatchExpressions: []corev1.NodeSelectorRequirement{in(own, "z")}}},
			want:  pv.Mutation{Labels: map[string]string{zone: "a"}},
		},
		"all there": {
			labels: map[string]string{zone: "a"}, volume: cloud.Volume{Zones: []string{"a"}},
			terms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in(zone, "a")}}},
			want:  pv.Mutation{Labels: map[string]string{}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: tt.labels}}
			if tt.terms != nil {
				object.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: tt.terms}}
			}
			before := object.DeepCopy()
			got, err := pv.Decide(object, &tt.volume, tt.key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mutation differs (-want +got):\n%s", diff)
			}
			after := got.Apply(object)
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the PersistentVolume was changed in place:\n%s", diff)
			}
			assertPatchMatches(t, object, got, after)
			again, err := pv.Decide(after, &tt.volume, tt.key)
			if err != nil || !again.Empty() {
				t.Errorf("deciding on the outcome wants %+v (error %v), should want nothing", again, err)
			}
		})
	}
}

// assertPatchMatches holds the JSON patch to what Apply does.
func assertPatchMatches(t *testing.T, object *corev1.PersistentVolume, m pv.Mutation, want *corev1.PersistentVolume) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var patch []byte
	if ops := m.Patch(object); len(ops) > 0 {
		if patch, err = json.Marshal(ops); err != nil {
			t.Fatal(err)
		}
	}
	if m.Empty() != (len(patch) == 0) {
		t.Errorf("mutation is empty: %v, but the patch is %s", m.Empty(), patch)
	}
	if diff := cmp.Diff(want, applyPatch(t, raw, patch)); diff != "" {
		t.Errorf("patch %s does something else than Apply (-apply +patch):\n%s", patch, diff)
	}
}

func TestDecideRefusesLongJoin(t *testing.T) {
	v := &cloud.Volume{Zones: []string{"a-zone-with-a-rather-long-name-1", "a-zone-with-a-rather-long-name-2"}}
	if m, err := pv.Decide(&corev1.PersistentVolume{}, v, ""); err == nil {
		t.Errorf("got %+v, want an error: the joined zones are longer than a label's value may be", m)
	}
}

// applyPatch applies a patch as the API server does.
func applyPatch(t *testing.T, raw, patch []byte) *corev1.PersistentVolume {
	t.Helper()
	if len(patch) > 0 {
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatalf("patch %s: %v", patch, err)
		}
		if raw, err = p.Apply(raw); err != nil {
			t.Fatalf("apply %s: %v", patch, err)
		}
	}
	object := &corev1.PersistentVolume{}
	if err := json.Unmarshal(raw, object); err != nil {
		t.Fatal(err)
	}
	return object
}
