package pv_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

const (
	zone, region         = corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	betaZone, betaRegion = corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion
)

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func term(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func labeled(labels map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: labels}}
}

func dynamic(labels map[string]string) *corev1.PersistentVolume {
	object := labeled(labels)
	object.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "somebody"}
	return object
}

func TestLacks(t *testing.T) {
	both := map[string]string{zone: "a", region: "r"}
	complete := labeled(both)
	complete.Spec.NodeAffinity = affinity()
	for name, tt := range map[string]struct {
		object *corev1.PersistentVolume
		want   bool
	}{
		"nothing": {complete, false}, "affinity": {labeled(both), true}, "empty labels": {func() *corev1.PersistentVolume {
			object := complete.DeepCopy()
			object.Labels = map[string]string{zone: "", region: ""}
			return object
		}(), false},
		"the zone": {func() *corev1.PersistentVolume {
			object := complete.DeepCopy()
			delete(object.Labels, zone)
			return object
		}(), true},
		"the region": {func() *corev1.PersistentVolume {
			object := complete.DeepCopy()
			delete(object.Labels, region)
			return object
		}(), true},
	} {
		if got := pv.Lacks(tt.object); got != tt.want {
			t.Errorf("it lacks %s: got %v", name, got)
		}
	}
}

// A PersistentVolume that exists only gets what it has not: neither another label nor other node affinity.
func TestBackfill(t *testing.T) {
	volume := &cloud.Volume{Zones: []string{"a"}, Region: "r"}
	own := affinity(term(in("hostname", "n")))
	all := []corev1.NodeSelectorRequirement{in(region, "r"), in(zone, "a")}
	for name, tt := range map[string]struct {
		labels         map[string]string
		affinity       *corev1.VolumeNodeAffinity
		want           pv.Mutation
		contradictions []string
	}{
		"nothing there":           {nil, nil, pv.Mutation{Labels: map[string]string{zone: "a", region: "r"}, Requirements: all}, nil},
		"one label":               {map[string]string{zone: "a"}, nil, pv.Mutation{Labels: map[string]string{region: "r"}, Requirements: all}, nil},
		"node affinity":           {nil, own, pv.Mutation{Labels: map[string]string{zone: "a", region: "r"}}, nil},
		"empty affinity":          {nil, &corev1.VolumeNodeAffinity{}, pv.Mutation{Labels: map[string]string{zone: "a", region: "r"}}, nil},
		"another zone":            {map[string]string{zone: "b"}, nil, pv.Mutation{}, []string{"label " + zone + "=b contradicts the volume's a"}},
		"an empty zone":           {map[string]string{zone: ""}, nil, pv.Mutation{}, []string{"label " + zone + "= contradicts the volume's a"}},
		"another zone and region": {map[string]string{zone: "b", region: "s"}, nil, pv.Mutation{}, []string{"label " + region + "=s contradicts the volume's r", "label " + zone + "=b contradicts the volume's a"}},
		"another deprecated one":  {map[string]string{betaZone: "b"}, nil, pv.Mutation{}, []string{"label " + betaZone + "=b contradicts the volume's " + zone + "=a"}},
		"a right deprecated one":  {map[string]string{betaZone: "a", betaRegion: "r"}, nil, pv.Mutation{Labels: map[string]string{zone: "a", region: "r"}, Requirements: all}, nil},
	} {
		object := labeled(tt.labels)
		object.Spec.NodeAffinity = tt.affinity
		got, contradictions, err := pv.Backfill(object, volume, "")
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if len(contradictions) != len(tt.contradictions) {
			t.Errorf("%s: contradictions %q, want %q", name, contradictions, tt.contradictions)
			continue
		}
		for k, want := range tt.contradictions {
			if !strings.HasPrefix(contradictions[k], want) {
				t.Errorf("%s: contradiction %q, want %q", name, contradictions[k], want)
			}
		}
	}
	if got, contradictions, err := pv.Backfill(labeled(nil), &cloud.Volume{Zones: []string{strings.Repeat("z", 64)}}, ""); err == nil || !got.Empty() || contradictions != nil {
		t.Errorf("a zone that no label can have: %+v, %v, %v", got, contradictions, err)
	}
}

// What a provisioner says of where its volume is needs no question to a cloud.
func TestTrusted(t *testing.T) {
	csi := func(object *corev1.PersistentVolume) *corev1.PersistentVolume {
		object.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d"}
		return object
	}
	both := map[string]string{zone: "b__a", region: "r"}
	want := pv.Mutation{Requirements: []corev1.NodeSelectorRequirement{in(region, "r"), in(zone, "a", "b")}}
	for name, tt := range map[string]struct {
		object *corev1.PersistentVolume
		want   pv.Mutation
		ok     bool
	}{
		"static":                    {labeled(both), pv.Mutation{}, false},
		"static of a driver":        {csi(labeled(both)), pv.Mutation{}, false},
		"dynamic":                   {dynamic(both), want, true},
		"dynamic, a zone alone":     {dynamic(map[string]string{zone: "a"}), pv.Mutation{}, false},
		"dynamic, a region alone":   {dynamic(map[string]string{region: "r"}), pv.Mutation{}, false},
		"dynamic, half of each":     {dynamic(map[string]string{zone: "a", betaRegion: "r"}), pv.Mutation{}, false},
		"dynamic, of a driver":      {csi(dynamic(nil)), pv.Mutation{}, true},
		"dynamic, of one, labeled":  {csi(dynamic(both)), want, true},
		"dynamic, deprecated":       {dynamic(map[string]string{betaZone: "a", betaRegion: "r"}), pv.Mutation{Requirements: []corev1.NodeSelectorRequirement{in(betaRegion, "r"), in(betaZone, "a")}}, true},
		"dynamic, both pairs":       {dynamic(map[string]string{betaZone: "x", betaRegion: "y", zone: "b__a", region: "r"}), want, true},
		"dynamic, spaces and twice": {dynamic(map[string]string{zone: "b__ a __b", region: "r"}), want, true},
	} {
		got, ok, err := pv.Trusted(tt.object)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok || err != nil {
			t.Errorf("%s: %v, %v (-want +got):\n%s", name, ok, err, diff)
		}
		got, ok, err = pv.BackfillTrusted(tt.object)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok || err != nil {
			t.Errorf("%s that exists: %v, %v (-want +got):\n%s", name, ok, err, diff)
		}
		tt.object.Spec.NodeAffinity = affinity(term(in("hostname", "n")))
		if got, _, err := pv.BackfillTrusted(tt.object); len(got.Requirements) != 0 || err != nil {
			t.Errorf("%s that exists with node affinity gets %v, %v", name, got.Requirements, err)
		}
		tt.object.Spec.NodeAffinity = affinity(term(in(zone, "other"), in(betaZone, "other")))
		if got, _, err := pv.Trusted(tt.object); len(got.Requirements) != 0 || err != nil {
			t.Errorf("%s with affinity of its own gets %v, %v", name, got.Requirements, err)
		}
	}
	for _, empty := range []string{"", "a__", "__a", "a____b", "a__ __b"} {
		if got, ok, err := pv.Trusted(dynamic(map[string]string{zone: empty, region: "r"})); err == nil || !ok || !got.Empty() || !strings.Contains(err.Error(), "label "+zone) {
			t.Errorf("zones %q: %+v, %v, %v", empty, got, ok, err)
		}
	}
}

// A Node is where a PersistentVolume is if it fulfills all that is to be required, and all labels.
func TestPlace(t *testing.T) {
	m := pv.Mutation{Labels: map[string]string{zone: "a__b", region: "r"}, Requirements: []corev1.NodeSelectorRequirement{in("own", "x"), in(zone, "a", "b")}}
	place := m.Place()
	if diff := cmp.Diff([]corev1.NodeSelectorRequirement{in("own", "x"), in(zone, "a", "b"), in(region, "r")}, place); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.Requirements) != 2 {
		t.Errorf("the mutation was changed: %v", m.Requirements)
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"there":          {map[string]string{zone: "b", region: "r", "own": "x", "more": "y"}, true},
		"in no zone":     {map[string]string{region: "r", "own": "x"}, false},
		"in another one": {map[string]string{zone: "c", region: "r", "own": "x"}, false},
		"in both":        {map[string]string{zone: "a__b", region: "r", "own": "x"}, false},
		"without labels": {nil, false},
	} {
		if got := pv.Matches(tt.labels, place); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !pv.Matches(nil, nil) || (pv.Mutation{}).Place() != nil {
		t.Error("nothing required is not fulfilled everywhere")
	}
}

// The condition, by which the API server leaves out what would not be decided; that it does is tested with one.
func TestCondition(t *testing.T) {
	const pairs = `("topology.kubernetes.io/zone" in object.metadata.labels && "topology.kubernetes.io/region" in object.metadata.labels) || ` +
		`("failure-domain.beta.kubernetes.io/zone" in object.metadata.labels && "failure-domain.beta.kubernetes.io/region" in object.metadata.labels)`
	head := `has(object.metadata.annotations) && "pv.kubernetes.io/provisioned-by" in object.metadata.annotations` + "\n"
	of := func(own string) string {
		return head + "? (has(object.metadata.labels) && (" + pairs + ")) || (!has(object.spec.csi) && (" + own + "))\n: (" + own + ")"
	}
	for own, sources := range map[string][]cloud.VolumeSource{
		"false": nil,
		`(has(object.spec.cinder) && object.spec.cinder.volumeID != "placeholder-for-provisioning") || ` +
			`(has(object.spec.csi) && object.spec.csi.driver == "d.example.com" && object.spec.csi.volumeHandle != "placeholder-for-provisioning")`: {
			{Field: "cinder", NameField: "volumeID"}, {Field: "csi", Driver: "d.example.com", NameField: "volumeHandle"}},
	} {
		if diff := cmp.Diff(of(own), pv.Condition(sources)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", sources, diff)
		}
	}
}
