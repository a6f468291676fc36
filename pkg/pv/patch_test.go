package pv_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

func withTerms(n int, expressions ...corev1.NodeSelectorRequirement) *corev1.PersistentVolume {
	object := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{corev1.LabelTopologyRegion: "r"}}}
	object.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	for range n {
		object.Spec.NodeAffinity.Required.NodeSelectorTerms = append(object.Spec.NodeAffinity.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: expressions})
	}
	return object
}

// Of one term, only what is added is in the patch; many are replaced by one operation.
func TestPatchOfTerms(t *testing.T) {
	volume := &cloud.Volume{Zones: []string{"a"}, Region: "r"}
	for name, tt := range map[string]struct {
		object *corev1.PersistentVolume
		paths  string
	}{
		"none":           {withTerms(0), "/spec/nodeAffinity/required/nodeSelectorTerms"},
		"empty one":      {withTerms(1), "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions"},
		"one":            {withTerms(1, in("k", "v")), "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/- /spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/-"},
		"two":            {withTerms(2, in("k", "v")), "/spec/nodeAffinity/required/nodeSelectorTerms"},
		"as many as may": {withTerms(100, in("k", "v")), "/spec/nodeAffinity/required/nodeSelectorTerms"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := pv.Decide(tt.object, volume, "")
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, op := range m.Patch(tt.object) {
				if strings.HasPrefix(op.Path, "/spec") {
					paths = append(paths, op.Path)
				}
			}
			if got := strings.Join(paths, " "); got != tt.paths {
				t.Errorf("%s, want %s", got, tt.paths)
			}
			assertPatchMatches(t, tt.object, m, m.Apply(tt.object))
		})
	}
}

// More terms than anybody needs are refused, but only where something would be added to them.
func TestTooManyTerms(t *testing.T) {
	volume := &cloud.Volume{Zones: []string{"a"}}
	const want = "spec.nodeAffinity has 101 node selector terms; use at most 100"
	if _, err := pv.Decide(withTerms(101), volume, ""); err == nil || err.Error() != want {
		t.Errorf("decided: %v, want %q", err, want)
	}
	if _, err := pv.Decide(withTerms(101), &cloud.Volume{}, ""); err != nil {
		t.Errorf("nothing to add: %v", err)
	}
	if _, err := pv.Decide(withTerms(101, in(corev1.LabelTopologyZone, "b")), volume, ""); err != nil {
		t.Errorf("decided by the user: %v", err)
	}
	dynamic := withTerms(101)
	dynamic.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "p"}
	dynamic.Labels[corev1.LabelTopologyZone] = "a"
	if _, ok, err := pv.Trusted(dynamic); !ok || err == nil || err.Error() != want {
		t.Errorf("trusted: %v, %v, want %q", ok, err, want)
	}
	dynamic.Labels[corev1.LabelTopologyZone] = strings.Repeat("a", 64)
	if _, ok, err := pv.Trusted(dynamic); !ok || err == nil || !strings.Contains(err.Error(), "64 characters is too long: 63") {
		t.Errorf("trusted: %v, %v", ok, err)
	}
}
