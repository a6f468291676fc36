package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// volumeLabeled creates a PersistentVolume for a Cinder volume in az2. The controller manager
// has registered its webhooks itself.
func (w *world) volumeLabeled(ctx context.Context) (string, error) {
	volume := w.cloud.AddVolume("data", "az2")
	volumes := w.cluster.Client.CoreV1().PersistentVolumes()
	// The API server may take a moment to notice the registration, and failurePolicy Ignore lets
	// volumes through until then: try without creating anything first.
	err := eventually(ctx, func(ctx context.Context) error {
		tried, err := volumes.Create(ctx, staticVolume(volume.ID), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && tried.Labels[corev1.LabelTopologyZone] == "" {
			err = errors.New("a PersistentVolume passes admission without labels")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	pv, err := volumes.Create(ctx, staticVolume(volume.ID), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	zone, region := pv.Labels[corev1.LabelTopologyZone], pv.Labels[corev1.LabelTopologyRegion]
	if zone != "az2" || region != "RegionOne" {
		return "", fmt.Errorf("labels zone %q, region %q: want az2, RegionOne", zone, region)
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
		return "", fmt.Errorf("node affinity is %v: want one term", pv.Spec.NodeAffinity)
	}
	return fmt.Sprintf("zone %s, region %s, node affinity with %d requirements", zone, region,
		len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions)), nil
}

func staticVolume(id string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id},
			},
		},
	}
}

// apply creates each object of a YAML stream.
func itemNames(items []openstack.Item) []string {
	var names []string
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}
