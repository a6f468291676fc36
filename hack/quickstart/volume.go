package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeLabeled creates a PersistentVolume for a volume in the second zone. The controller manager
// has registered its webhooks itself.
func (w *world) volumeLabeled(ctx context.Context) (string, error) {
	wanted := w.scene.machines[1].zone
	source, err := w.scene.volume(ctx, wanted)
	if err != nil {
		return "", err
	}
	volumes := w.cluster.Client.CoreV1().PersistentVolumes()
	// The API server may take a moment to notice the registration, and failurePolicy Ignore lets
	// volumes through until then: try without creating anything first.
	err = eventually(ctx, func(ctx context.Context) error {
		tried, err := volumes.Create(ctx, staticVolume(source), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && tried.Labels[corev1.LabelTopologyZone] == "" {
			err = errors.New("a PersistentVolume passes admission without labels")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	pv, err := volumes.Create(ctx, staticVolume(source), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	zone, region := pv.Labels[corev1.LabelTopologyZone], pv.Labels[corev1.LabelTopologyRegion]
	if zone != wanted || region != w.scene.region {
		return "", fmt.Errorf("labels zone %q, region %q: want %s, %s", zone, region, wanted, w.scene.region)
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
		return "", fmt.Errorf("node affinity is %v: want one term", pv.Spec.NodeAffinity)
	}
	return fmt.Sprintf("zone %s, region %s, node affinity with %d requirements", zone, region,
		len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions)), nil
}

func csiVolume(driver, handle string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

func staticVolume(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: source,
		},
	}
}
