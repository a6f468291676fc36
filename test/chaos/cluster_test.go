package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// cluster is the shared control plane as one test sees it, with a cloud of its own. The test
// finds no PersistentVolumes and no webhook configurations, and leaves none.
type cluster struct {
	t          testing.TB
	plane      *controlplane.ControlPlane
	client     *kubernetes.Clientset
	sim        *ossim.Sim
	cloudConf  string
	kubeconfig string
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	theShared.once.Do(func() { theShared.err = theShared.start() })
	if theShared.err != nil {
		t.Fatal(theShared.err)
	}
	sim, err := ossim.Start(ossim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	c := &cluster{t: t, plane: theShared.plane, client: theShared.plane.Client, sim: sim,
		kubeconfig: theShared.kubeconfig, cloudConf: filepath.Join(t.TempDir(), "cloud.conf")}
	if err := os.WriteFile(c.cloudConf, []byte(sim.CloudConf()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.clean)
	return c
}

// clean removes what the test has left in the cluster. The webhooks go first. A busy API server ends a request
// before it has deleted thousands of PersistentVolumes, so what is left is deleted by the next one.
func (c *cluster) clean() {
	var all metav1.ListOptions
	var now metav1.DeleteOptions
	ctx := context.Background()
	eventually.NoError(c.t, func() error {
		if err := errors.Join(
			c.forgetCertificates(ctx),
			c.client.CoreV1().PersistentVolumes().DeleteCollection(ctx, now, all),
			client.IgnoreNotFound(c.client.CoreV1().Services(metav1.NamespaceSystem).Delete(ctx, "isthmus-webhook", now)),
			c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).DeleteCollection(ctx, now, all),
			c.client.CoordinationV1().Leases(metav1.NamespaceSystem).DeleteCollection(ctx, now, all),
		); err != nil {
			return fmt.Errorf("clean the cluster: %w", err)
		}
		return nil
	})
}

// secretName is the Secret of self-managed certificates, in kube-system.
const secretName = "isthmus-webhook-tls"

// forgetCertificates removes the Secret of the replicas' own certificates, and the webhook
// configurations that have them.
func (c *cluster) forgetCertificates(ctx context.Context) error {
	var all metav1.ListOptions
	var now metav1.DeleteOptions
	return errors.Join(
		c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, now, all),
		c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, now, all),
		client.IgnoreNotFound(c.client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, secretName, now)),
	)
}

// volumes makes volumes in the cloud, in three zones, and returns their IDs.
func (c *cluster) volumes(count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = c.sim.AddVolume("", "az"+strconv.Itoa(1+i%3)).ID
	}
	return ids
}

// service creates the webhooks' Service as it ships and returns its cluster IP and port.
func (c *cluster) service() string {
	c.t.Helper()
	var s corev1.Service
	shipped(c.t, "components/webhook-server/service.yaml", &s)
	made, err := c.client.CoreV1().Services(s.Namespace).Create(c.t.Context(), &s, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		c.t.Fatal(err)
	}
	return net.JoinHostPort(made.Spec.ClusterIP, strconv.Itoa(int(made.Spec.Ports[0].Port)))
}

// shipped reads a manifest.
func shipped(t testing.TB, name string, into any) {
	t.Helper()
	data, err := fs.ReadFile(manifests.FS(), name)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("manifest %s: %v", name, err)
	}
}

// waitCalled waits until the API server calls the webhook when a PersistentVolume is created.
func (c *cluster) waitCalled() {
	c.t.Helper()
	id := c.volumes(1)[0]
	eventually.Met(c.t, func() string {
		pv, err := c.client.CoreV1().PersistentVolumes().Create(c.t.Context(), static("probe", id), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if problem := labeled(pv); problem != "" {
			return problem
		}
		return ""
	})
}

// static is a PersistentVolume made by hand for a volume that exists.
func static(name, id string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id}},
		},
	}
}

// slowness is how many times as long as a quiet machine of two cores this one takes now, at
// least 1, by what the API server gets done. What has to keep to a time gets that many times of
// it, and loads go that much slower: a busy machine then has as much at a time as a quiet one.
func (c *cluster) slowness() float64 {
	c.t.Helper()
	const (
		clients, each = 50, 20
		quiet         = 600.0 // creations a second, a part of what such a machine can
	)
	var wg sync.WaitGroup
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			for range each {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pace"}}
				if _, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(c.t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rate := clients * each / time.Since(begin).Seconds()
	slowness := max(1, quiet/rate)
	c.t.Logf("%.0f creations a second: times are multiplied by %.1f", rate, slowness)
	return slowness
}

// times is d, as often as the machine is slower than a quiet one, but limit at most.
func times(d time.Duration, slowness float64, limit time.Duration) time.Duration {
	return min(time.Duration(float64(d)*slowness), limit).Round(100 * time.Millisecond)
}

// labeled returns what pv lacks of its labels and its node affinity.
func labeled(pv *corev1.PersistentVolume) string {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if pv.Labels[key] == "" {
			return fmt.Sprintf("PersistentVolume %s has no label %s", pv.Name, key)
		}
	}
	if pv.Spec.NodeAffinity == nil {
		return fmt.Sprintf("PersistentVolume %s has no node affinity", pv.Name)
	}
	return ""
}
