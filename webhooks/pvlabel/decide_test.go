package pvlabel_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
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
		want   pvlabel.Mutation
	}{
		"nothing known": {want: pvlabel.Mutation{Labels: map[string]string{}}},
		"zone and region": {
			volume: cloud.Volume{Zones: []string{"b", "a"}, Region: "r"},
			want: pvlabel.Mutation{
				Labels:       map[string]string{zone: "a__b", region: "r"},
				Requirements: []corev1.NodeSelectorRequirement{in(region, "r"), in(zone, "a", "b")},
			},
		},
		"one zone whose name looks like two stays one": {
			volume: cloud.Volume{Zones: []string{"a__b"}},
			want: pvlabel.Mutation{
				Labels:       map[string]string{zone: "a__b"},
				Requirements: []corev1.NodeSelectorRequirement{in(zone, "a__b")},
			},
		},
		"driver's key": {
			volume: cloud.Volume{Zones: []string{"a"}}, key: own,
			want: pvlabel.Mutation{
				Labels:       map[string]string{zone: "a"},
				Requirements: []corev1.NodeSelectorRequirement{in(own, "a"), in(zone, "a")},
			},
		},
		"driver's key stands already": {
			volume: cloud.Volume{Zones: []string{"a"}}, key: own,
			terms: []corev1.NodeSelectorTerm{{}, {MatchExpressions: []corev1.NodeSelectorRequirement{in(own, "z")}}},
			want:  pvlabel.Mutation{Labels: map[string]string{zone: "a"}},
		},
		"all there": {
			labels: map[string]string{zone: "a"}, volume: cloud.Volume{Zones: []string{"a"}},
			terms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in(zone, "a")}}},
			want:  pvlabel.Mutation{Labels: map[string]string{}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: tt.labels}}
			if tt.terms != nil {
				pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: tt.terms}}
			}
			before := pv.DeepCopy()
			got, err := pvlabel.Decide(pv, &tt.volume, tt.key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mutation differs (-want +got):\n%s", diff)
			}
			after := got.Apply(pv)
			if diff := cmp.Diff(before, pv); diff != "" {
				t.Errorf("the PersistentVolume was changed in place:\n%s", diff)
			}
			assertPatchMatches(t, pv, got, after)
			again, err := pvlabel.Decide(after, &tt.volume, tt.key)
			if err != nil || !again.Empty() {
				t.Errorf("deciding on the outcome wants %+v (error %v), should want nothing", again, err)
			}
		})
	}
}

// assertPatchMatches holds the JSON patch to what Apply does.
func assertPatchMatches(t *testing.T, pv *corev1.PersistentVolume, m pvlabel.Mutation, want *corev1.PersistentVolume) {
	t.Helper()
	raw, err := json.Marshal(pv)
	if err != nil {
		t.Fatal(err)
	}
	var patch []byte
	if ops := m.Patch(pv); len(ops) > 0 {
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
	if m, err := pvlabel.Decide(&corev1.PersistentVolume{}, v, ""); err == nil {
		t.Errorf("got %+v, want an error: the joined zones are longer than a label's value may be", m)
	}
}
