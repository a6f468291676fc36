package pv

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Lacks reports whether pv, which exists, lacks something that a backfill could add: a zone
// label, a region label, or node affinity, which can be added only where there is none.
func Lacks(pv *corev1.PersistentVolume) bool {
	_, zone := pv.Labels[corev1.LabelTopologyZone]
	_, region := pv.Labels[corev1.LabelTopologyRegion]
	return !zone || !region || pv.Spec.NodeAffinity == nil
}

// Backfill is Decide for a pv that exists, whose labels may be somebody's intent by now: it
// only adds. Labels that contradict the cloud are returned, and then nothing is to be added.
func Backfill(pv *corev1.PersistentVolume, v *cloud.Volume, topologyKey string) (m Mutation, contradictions []string, err error) {
	m, err = Decide(pv, v, topologyKey)
	if err != nil {
		return Mutation{}, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		if was, ok := pv.Labels[key]; ok {
			contradictions = append(contradictions, fmt.Sprintf("label %s=%s contradicts the volume's %s", key, was, m.Labels[key]))
		}
	}
	if contradictions = append(contradictions, m.Warnings...); len(contradictions) > 0 {
		return Mutation{}, contradictions, nil
	}
	return m.addOnly(pv), nil, nil
}

// BackfillTrusted is Trusted for a pv that exists.
func BackfillTrusted(pv *corev1.PersistentVolume) (m Mutation, ok bool, err error) {
	m, ok, err = Trusted(pv)
	return m.addOnly(pv), ok, err
}

func (m Mutation) addOnly(pv *corev1.PersistentVolume) Mutation {
	if pv.Spec.NodeAffinity != nil {
		m.Requirements = nil
	}
	return m
}

// Place is what m requires of a Node that pv can be used on, be it by label or by node affinity.
func (m Mutation) Place() []corev1.NodeSelectorRequirement {
	place := slices.Clone(m.Requirements)
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		if !slices.ContainsFunc(place, func(r corev1.NodeSelectorRequirement) bool { return r.Key == key }) {
			place = append(place, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: strings.Split(m.Labels[key], zoneDelimiter)})
		}
	}
	return place
}

// Matches reports whether a Node's labels fulfill all of place, which Place returned.
func Matches(labels map[string]string, place []corev1.NodeSelectorRequirement) bool {
	for _, r := range place {
		if value, ok := labels[r.Key]; !ok || !slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}
