package integration

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// A cold cluster in which the webhooks are registered with policy Fail and nobody serves them
// starts, from the manifests' objects to a webhook that answers, with the rights that ship.
func TestColdStartWithPolicyFail(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	volume := sim.AddVolume("data", "az2")
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.registerFailing()
	eventually.Met(t, func() string {
		if err := c.tryVolume(volume.ID, nil); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return "PersistentVolumes are not refused"
		}
		return ""
	})
	auto := c.webhookAccounts()
	c.createBootstrapObjects()
	c.register(servers, always(nodeState{ready: true}))

	// Controllers and webhooks in one process.
	ccm := c.startBinary(sim, c.kubeconfig, "--controllers=*", "--cluster-cidr=10.244.0.0/16")
	eventually.Met(t, func() string { return c.initialized(servers) })
	if c.holder(mainLease) == "" {
		t.Error("nobody holds the lease")
	}
	labeled := func() string {
		var pv corev1.PersistentVolume
		if err := c.tryVolume(volume.ID, &pv); err != nil {
			return err.Error()
		}
		if pv.Labels[corev1.LabelTopologyZone] != "az2" {
			return "a PersistentVolume passes without labels"
		}
		return ""
	}
	eventually.Met(t, labeled)
	events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Registered"})
	if err != nil || len(events.Items) == 0 {
		t.Errorf("%d events about the registration, %v", len(events.Items), err)
	}
	ccm()

	// Webhooks only, with the rights of their own Deployment; then the removal, which ends.
	manager := c.startBinary(sim, auto, "--controllers=-*")
	eventually.Met(t, labeled)
	c.trustedWhenReady(sim)
	manager()
	out, err := exec.CommandContext(t.Context(), binary(t), "--cloud-provider=openstack", "--kubeconfig="+auto, "--controllers=-*", "--webhook-registration=remove").CombinedOutput()
	if err != nil || strings.Count(string(out), "Webhook configuration removed") != 2 {
		t.Errorf("remove: %v\n%s", err, out)
	}
	eventually.Met(t, func() string {
		if err := c.tryVolume(volume.ID, nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

// trustedWhenReady starts a replica with a CA of its own beside others: once it says that it
// is ready, the API server trusts it.
func (c *cluster) trustedWhenReady(sim *ossim.Sim) {
	c.t.Helper()
	ca, dir := certstest.NewCA(c.t), c.t.TempDir()
	ca.WriteDir(c.t, dir)
	stop := c.startBinary(sim, c.kubeconfig, "--controllers=-*", "--webhook-cert-source=files", "--webhook-cert-dir="+dir)
	live, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(c.t.Context(), registration.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Contains(live.Webhooks[0].ClientConfig.CABundle, ca.PEM) {
		c.t.Error("a replica is ready whose certificate the API server does not trust")
	}
	stop()
}

// registerFailing registers all webhooks as they ship, but with policy Fail.
func (c *cluster) registerFailing() {
	c.t.Helper()
	o := registration.NewOptions()
	o.FailurePolicies, o.Webhooks = []string{"Fail"}, hosted.All()
	for i := range o.Webhooks {
		o.Webhooks[i].MatchConditions = nil
	}
	m, v := registration.Configurations(o, nil)
	api := c.client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Create(c.t.Context(), m, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := api.ValidatingWebhookConfigurations().Create(c.t.Context(), v, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// webhookAccounts applies what lets the cloud controller manager register webhooks, and the
// ServiceAccount of the process that only serves them, whose kubeconfig it returns.
func (c *cluster) webhookAccounts() (kubeconfig string) {
	c.t.Helper()
	read := func(name string) []byte {
		data, err := fs.ReadFile(manifests.FS(), name)
		if err != nil {
			c.t.Fatal(err)
		}
		return data
	}
	components := slices.Concat(read("components/webhook-auto/rbac.yaml"), []byte("\n---\n"), read("components/webhook-self-managed/rbac.yaml"))
	// The bindings of the overlay that serves webhooks only, beside those of the other.
	both := bytes.ReplaceAll(components, []byte("subjects:\n"), []byte("subjects:\n  - {kind: ServiceAccount, name: "+manifests.WebhookServiceAccount+", namespace: kube-system}\n"))
	for _, documents := range [][]byte{read("webhook-manager/rbac.yaml"), both} {
		if err := c.Apply(c.t.Context(), documents); err != nil {
			c.t.Fatal(err)
		}
	}
	config, err := c.ServiceAccountConfig(c.t.Context(), manifests.Namespace, manifests.WebhookServiceAccount, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		c.t.Fatal(err)
	}
	return kubeconfig
}

// createBootstrapObjects creates, in kube-system, what a start needs beside RBAC.
func (c *cluster) createBootstrapObjects() {
	c.t.Helper()
	ctx, meta, o := c.t.Context(), metav1.ObjectMeta{Name: "cold-start"}, metav1.CreateOptions{}
	core := c.client.CoreV1()
	ports := []corev1.ServicePort{{Port: 443}}
	for kind, create := range map[string]func() error{
		"Secret": func() error {
			_, err := core.Secrets("kube-system").Create(ctx, &corev1.Secret{ObjectMeta: meta}, o)
			return err
		},
		"ConfigMap": func() error {
			_, err := core.ConfigMaps("kube-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, o)
			return err
		},
		"Service": func() error {
			_, err := core.Services("kube-system").Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports}}, o)
			return err
		},
		"Lease": func() error {
			_, err := c.client.CoordinationV1().Leases("kube-system").Create(ctx, &coordinationv1.Lease{ObjectMeta: meta}, o)
			return err
		},
	} {
		if err := create(); err != nil {
			c.t.Errorf("create a %s while no webhook answers: %v", kind, err)
		}
	}
	c.t.Cleanup(func() {
		if err := core.Services("kube-system").Delete(context.Background(), meta.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Log(err)
		}
	})
}

// tryVolume creates a PersistentVolume of a Cinder volume, dry, into pv if that is not nil.
func (c *cluster) tryVolume(id string, pv *corev1.PersistentVolume) error {
	created, err := c.client.CoreV1().PersistentVolumes().Create(c.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && pv != nil {
		*pv = *created
	}
	return err
}

// startBinary starts the real binary with webhooks that it registers with policy Fail, and
// waits until it is ready. What it returns ends it.
func (c *cluster) startBinary(sim *ossim.Sim, kubeconfig string, args ...string) (stop func()) {
	c.t.Helper()
	port, webhookPort := freePort(c.t), freePort(c.t)
	cmd := exec.CommandContext(c.t.Context(), binary(c.t), append([]string{
		"--cloud-provider=openstack", "--cloud-config=" + write(c.t, "cloud.conf", sim.CloudConf()), "--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + c.t.TempDir(), "--authorization-always-allow-paths=/readyz*",
		"--webhooks=*", "--webhook-bind-address=127.0.0.1", "--webhook-secure-port=" + webhookPort, selfManaged,
		"--webhook-registration=auto", "--webhook-url=https://127.0.0.1:" + webhookPort, "--webhook-failure-policy=Fail", "--v=2",
	}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), c.env...)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			_ = cmd.Wait() // it has ended with the test's context
			c.t.Log(stderr.String())
		}
	})
	(&running{t: c.t, address: "127.0.0.1:" + port}).wait("/readyz", http.StatusOK)
	return func() {
		c.t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			c.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			c.t.Errorf("ended with %v", err)
		}
		for line := range strings.SplitSeq(stderr.String(), "\n") {
			if strings.Contains(line, "is forbidden") {
				c.t.Errorf("the rights that ship do not suffice: %s", line)
			}
		}
	}
}
