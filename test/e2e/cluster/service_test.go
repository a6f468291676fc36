//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// running is nil if n pods of hello are ready.
func running(ctx context.Context, c *cluster.Cluster, n int) error {
	d, err := c.Client.AppsV1().Deployments("default").Get(ctx, cluster.HelloName, metav1.GetOptions{})
	if err == nil && int(d.Status.ReadyReplicas) != n {
		err = fmt.Errorf("%d pods are ready", d.Status.ReadyReplicas)
	}
	return err
}

// address waits until the Service is reached from outside, by a floating IP, and returns where.
func address(t *testing.T, c *cluster.Cluster) (url cluster.Hello) {
	t.Helper()
	eventually(t, "the Service has an address", time.Minute, func(ctx context.Context) (err error) {
		url, err = c.HelloURL(ctx)
		return err
	})
	if !slices.ContainsFunc(c.Cloud.Snapshot().FloatingIPs, func(f openstack.Item) bool { return url == cluster.URLOf(f.Name, 80) }) {
		t.Fatalf("%s is no floating IP of the cloud", url)
	}
	return url
}

// deleteService deletes the Service of hello; the cloud then has nothing of it.
func deleteService(t *testing.T, c *cluster.Cluster) {
	services := c.Client.CoreV1().Services("default")
	if err := services.Delete(t.Context(), cluster.HelloName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service is gone", time.Minute, func(ctx context.Context) error {
		_, err := services.Get(ctx, cluster.HelloName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it still waits for its load balancer's deletion")
	})
	left := c.Cloud.Snapshot()
	if n := len(left.LoadBalancers) + len(left.Listeners) + len(left.Pools) + len(left.FloatingIPs) + len(left.SecurityGroups); n != 0 {
		t.Errorf("left in the cloud: %v %v %v", left.LoadBalancers, left.FloatingIPs, left.SecurityGroups)
	}
}

// checkVolume: a PersistentVolume comes back with the zone of its volume.
func checkVolume(t *testing.T, c *cluster.Cluster, name string) {
	volume := c.Cloud.AddVolume(name, "az2")
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: volume.ID}},
	}}
	eventually(t, "PersistentVolumes are labeled", 2*time.Minute, func(ctx context.Context) error {
		tried, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && tried.Labels[corev1.LabelTopologyZone] != "az2" {
			err = fmt.Errorf("the volume in az2 has the labels %v", tried.Labels)
		}
		return err
	})
	if err := c.Client.CoreV1().PersistentVolumes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
