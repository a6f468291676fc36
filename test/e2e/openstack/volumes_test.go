//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// The webhook that ships labels a PersistentVolume with what Cinder says of its volume, and
// refuses one whose volume Cinder does not have.
func TestPersistentVolumeLabels(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	volume := c.cloud.volume(t, "az2")
	hooks := c.client.AdmissionregistrationV1()
	t.Cleanup(func() { // after the manager's end, or it would put them back
		if err := c.cloud.cleanup(func(ctx context.Context) error {
			return errors.Join(hooks.MutatingWebhookConfigurations().Delete(ctx, registration.Name, metav1.DeleteOptions{}),
				hooks.ValidatingWebhookConfigurations().Delete(ctx, registration.Name, metav1.DeleteOptions{}))
		}); err != nil {
			t.Error(err)
		}
	})
	port := freePort(t)
	c.startManager("", "--webhook-secure-port="+port, "--webhook-url=https://127.0.0.1:"+port, "--webhook-registration=auto")
	var err error
	var got *corev1.PersistentVolume
	pvs := c.client.CoreV1().PersistentVolumes()
	// The API server takes a moment to notice the registration.
	c.eventually("a PersistentVolume is labeled", func(ctx context.Context) error {
		got, err = pvs.Create(ctx, persistentVolume("data", volume.ID), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Labels[corev1.LabelTopologyZone] == "" {
			err = errors.New("it passes admission without labels")
		}
		return err
	})
	if got, err = pvs.Create(ctx, persistentVolume("data", volume.ID), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cloud.cleanup(func(ctx context.Context) error { return pvs.Delete(ctx, "data", metav1.DeleteOptions{}) })
	})
	if zone, region := got.Labels[corev1.LabelTopologyZone], got.Labels[corev1.LabelTopologyRegion]; zone != volume.AvailabilityZone || region != c.cloud.region {
		t.Errorf("labels %v, want zone %s, region %s", got.Labels, volume.AvailabilityZone, c.cloud.region)
	}
	affinity := map[string]string{}
	if a := got.Spec.NodeAffinity; a != nil && a.Required != nil && len(a.Required.NodeSelectorTerms) == 1 {
		for _, e := range a.Required.NodeSelectorTerms[0].MatchExpressions {
			affinity[e.Key] = strings.Join(e.Values, ",")
		}
	}
	if affinity[corev1.LabelTopologyZone] != volume.AvailabilityZone || affinity[corev1.LabelTopologyRegion] != c.cloud.region {
		t.Errorf("node affinity %v", got.Spec.NodeAffinity)
	}

	if err := c.cloud.deleteVolume(volume.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := pvs.Create(ctx, persistentVolume("late", volume.ID), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
		t.Error("a PersistentVolume whose volume Cinder does not have is admitted")
	} else {
		t.Logf("refused as it should be: %v", err)
	}
}

func persistentVolume(name, volumeID string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: volumeID},
			},
		},
	}
}

// volume makes a volume in a zone and removes it when t ends.
func (c *realCloud) volume(t testing.TB, zone string) *volumes.Volume {
	t.Helper()
	ctx, api := t.Context(), c.member.blockStorage
	v, err := volumes.Create(ctx, api, volumes.CreateOpts{Size: 1, Name: "e2e", AvailabilityZone: zone}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.deleteVolume(v.ID); err != nil {
			t.Errorf("delete volume: %v", err)
		}
	})
	err = poll(ctx, patience, func(ctx context.Context) error {
		v, err = volumes.Get(ctx, api, v.ID).Extract()
		if err == nil && v.Status != "available" {
			err = fmt.Errorf("volume %s is %s", v.ID, v.Status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// deleteVolume deletes a volume and waits until it is gone; that it is gone already is fine.
func (c *realCloud) deleteVolume(id string) error {
	api := c.member.blockStorage
	if err := c.cleanup(func(ctx context.Context) error { return volumes.Delete(ctx, api, id, nil).ExtractErr() }); err != nil {
		return err
	}
	return c.cleanup(func(ctx context.Context) error {
		return poll(ctx, patience, func(ctx context.Context) error {
			v, err := volumes.Get(ctx, api, id).Extract()
			if gophercloud.ResponseCodeIs(err, 404) {
				return nil
			}
			if err == nil {
				err = fmt.Errorf("volume %s is still %s", id, v.Status)
			}
			return err
		})
	})
}
