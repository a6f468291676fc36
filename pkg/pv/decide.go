package pv

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// OptOutLabel on a PersistentVolume, with the value "true", keeps it as it is.
const OptOutLabel = "isthmus-cloud.github.io/skip-persistentvolume-label"

// zoneDelimiter joins the zones of a volume that can be attached in several.
const zoneDelimiter = "__"

// annotationProvisionedBy marks dynamically provisioned PersistentVolumes.
const annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"

// Mutation is what a PersistentVolume lacks. The zero value means nothing.
type Mutation struct {
	// Labels are to be set, whatever value they have now.
	Labels map[string]string
	// Requirements are to be added to every term of the node affinity, sorted by key.
	Requirements []corev1.NodeSelectorRequirement
	// Warnings are for the user who creates the PersistentVolume.
	Warnings []string
}

// Empty reports whether there is nothing to change.
func (m Mutation) Empty() bool { return len(m.Labels) == 0 && len(m.Requirements) == 0 }

// trustedPairs are the labels by which a provisioner says where a volume is, zone and region;
// the first pair wins.
func trustedPairs() [][2]string {
	return [][2]string{
		{corev1.LabelTopologyZone, corev1.LabelTopologyRegion},
		{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion},
	}
}

// Trusted decides on a dynamically provisioned pv whose provisioner has said where it is, so
// that no cloud is asked: one with a zone and a region label (the pair of topology.kubernetes.io
// wins over the deprecated one), which get into the node affinity, and every other one of a
// CSI driver, which wrote the node affinity itself. ok is false for every other pv. The
// source may be any: the scheduler heeds these labels on every PersistentVolume, and the
// node affinity says no more than they do.
func Trusted(pv *corev1.PersistentVolume) (m Mutation, ok bool, err error) {
	if _, dynamic := pv.Annotations[annotationProvisionedBy]; !dynamic {
		return Mutation{}, false, nil
	}
	for _, keys := range trustedPairs() {
		zone, hasZone := pv.Labels[keys[0]]
		region, hasRegion := pv.Labels[keys[1]]
		if !hasZone || !hasRegion {
			continue
		}
		zones, err := splitZones(zone)
		if err != nil {
			return Mutation{}, true, fmt.Errorf("label %s: %w", keys[0], err)
		}
		m.Requirements, err = missing(pv, map[string][]string{keys[0]: zones, keys[1]: {region}})
		return m, true, err
	}
	return Mutation{}, pv.Spec.CSI != nil, nil
}

// Decide says what pv, whose volume is v, lacks. topologyKey is the CSI driver's own key
// (cloud.VolumeRef); it is required in the node affinity beside the labels. A volume that
// is bound to nothing changes nothing.
func Decide(pv *corev1.PersistentVolume, v *cloud.Volume, topologyKey string) (Mutation, error) {
	want := map[string][]string{}
	if zones := sorted(v.Zones); len(zones) > 0 {
		want[corev1.LabelTopologyZone] = zones
	}
	if v.Region != "" {
		want[corev1.LabelTopologyRegion] = []string{v.Region}
	}
	m := Mutation{Labels: map[string]string{}}
	for key, values := range want {
		label := strings.Join(values, zoneDelimiter)
		if msgs := validation.IsValidLabelValue(label); len(msgs) > 0 {
			return Mutation{}, fmt.Errorf("the cloud's value %q cannot be the value of label %s: %s", label, key, strings.Join(msgs, "; "))
		}
		if pv.Labels[key] != label {
			m.Labels[key] = label
		}
		m.Warnings = append(m.Warnings, contradiction(pv, key, label)...)
	}
	slices.Sort(m.Warnings)
	if zones := want[corev1.LabelTopologyZone]; len(zones) > 0 && topologyKey != "" {
		want[topologyKey] = zones
	}
	var err error
	if m.Requirements, err = missing(pv, want); err != nil {
		return Mutation{}, err
	}
	return m, nil
}

// contradiction warns of a deprecated label that the user set to something else: the
// scheduler reads it as well.
func contradiction(pv *corev1.PersistentVolume, key, label string) []string {
	beta := map[string]string{
		corev1.LabelTopologyZone:   corev1.LabelFailureDomainBetaZone,
		corev1.LabelTopologyRegion: corev1.LabelFailureDomainBetaRegion,
	}[key]
	if value, ok := pv.Labels[beta]; ok && value != label {
		return []string{fmt.Sprintf("label %s=%s contradicts the volume's %s=%s and keeps Pods from being scheduled; remove it", beta, value, key, label)}
	}
	return nil
}

// missing returns the requirements for want, sorted by key; none when any of the keys stands
// in the node affinity already: then the user, or the provisioner, has decided. They cannot be
// added to more than maxTerms terms.
func missing(pv *corev1.PersistentVolume, want map[string][]string) ([]corev1.NodeSelectorRequirement, error) {
	for _, term := range terms(pv) {
		for _, e := range term.MatchExpressions {
			if _, ok := want[e.Key]; ok {
				return nil, nil
			}
		}
	}
	if n := len(terms(pv)); n > maxTerms && len(want) > 0 {
		return nil, fmt.Errorf("spec.nodeAffinity has %d node selector terms; use at most %d", n, maxTerms)
	}
	var reqs []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(want)) {
		reqs = append(reqs, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: want[key]})
	}
	return reqs, nil
}

// maxTerms is how many terms a node affinity may have that requirements are added to: those of
// known provisioners have one for each zone.
const maxTerms = 100

// terms returns the terms of pv's node affinity.
func terms(pv *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// splitZones is the reverse of the join: the zones that a label's value names, sorted.
func splitZones(value string) ([]string, error) {
	if n := len(value); n > validation.LabelValueMaxLength { // nothing has validated it when a webhook sees it
		return nil, fmt.Errorf("a value of %d characters is too long: %d are allowed", n, validation.LabelValueMaxLength)
	}
	zones := strings.Split(value, zoneDelimiter)
	for i := range zones {
		zones[i] = strings.TrimSpace(zones[i])
		if zones[i] == "" {
			return nil, fmt.Errorf("%q names an empty zone; name one zone, or several joined by %q", value, zoneDelimiter)
		}
	}
	return sorted(zones), nil
}

// sorted returns the values sorted, without duplicates and empty ones.
func sorted(values []string) []string {
	out := slices.Compact(slices.Sorted(slices.Values(values)))
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}
