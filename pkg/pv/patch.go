package pv

import (
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// Apply returns a copy of pv with m carried out.
func (m Mutation) Apply(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	out := pv.DeepCopy()
	if len(m.Labels) > 0 && out.Labels == nil {
		out.Labels = map[string]string{}
	}
	maps.Copy(out.Labels, m.Labels)
	if len(m.Requirements) == 0 {
		return out
	}
	if out.Spec.NodeAffinity == nil {
		out.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{}
	}
	if out.Spec.NodeAffinity.Required == nil {
		out.Spec.NodeAffinity.Required = &corev1.NodeSelector{}
	}
	required := out.Spec.NodeAffinity.Required
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, m.Requirements...)
	}
	return out
}

// Patch returns what Apply does as a JSON patch against pv as the API server sent it: additions
// at the places that change, in a fixed order, so that fields that this program does not know
// stay as they are. But several terms of the node affinity are replaced at once, since the API
// server takes its time for each operation.
func (m Mutation) Patch(pv *corev1.PersistentVolume) []jsonpatch.JsonPatchOperation {
	return append(m.labelPatch(pv), m.affinityPatch(pv)...)
}

func (m Mutation) labelPatch(pv *corev1.PersistentVolume) []jsonpatch.JsonPatchOperation {
	if len(m.Labels) == 0 {
		return nil
	}
	if len(pv.Labels) == 0 {
		return []jsonpatch.JsonPatchOperation{add("/metadata/labels", m.Labels)}
	}
	var ops []jsonpatch.JsonPatchOperation
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		op := add("/metadata/labels/"+escape(key), m.Labels[key])
		if _, ok := pv.Labels[key]; ok {
			op.Operation = "replace"
		}
		ops = append(ops, op)
	}
	return ops
}

func (m Mutation) affinityPatch(pv *corev1.PersistentVolume) []jsonpatch.JsonPatchOperation {
	if len(m.Requirements) == 0 {
		return nil
	}
	const affinity = "/spec/nodeAffinity"
	after := m.Apply(pv).Spec.NodeAffinity
	switch {
	case pv.Spec.NodeAffinity == nil:
		return []jsonpatch.JsonPatchOperation{add(affinity, after)}
	case pv.Spec.NodeAffinity.Required == nil:
		return []jsonpatch.JsonPatchOperation{add(affinity+"/required", after.Required)}
	case len(terms(pv)) != 1: // to add is to replace where there are some
		return []jsonpatch.JsonPatchOperation{add(affinity+"/required/nodeSelectorTerms", after.Required.NodeSelectorTerms)}
	}
	const path = affinity + "/required/nodeSelectorTerms/0/matchExpressions"
	if len(terms(pv)[0].MatchExpressions) == 0 {
		return []jsonpatch.JsonPatchOperation{add(path, m.Requirements)}
	}
	var ops []jsonpatch.JsonPatchOperation
	for _, r := range m.Requirements {
		ops = append(ops, add(path+"/-", r))
	}
	return ops
}

func add(path string, value any) jsonpatch.JsonPatchOperation {
	return jsonpatch.NewOperation("add", path, value)
}

// escape makes a key a JSON pointer's segment.
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
