package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// process is the real binary, with webhooks' certificates in a directory of its own.
type process struct {
	*running
	// webhook is where webhooks are served, if they are.
	webhook *running
	certDir string
	// losesLease is whether it is to end by itself because somebody else holds its lease.
	losesLease bool
	// end ends it as the kubelet does, checks that it has gone well, and returns what it has
	// logged. It may be called once more.
	end func() string
}

// launch starts the binary on a simulated OpenStack, with args beside those that it needs.
func (c *cluster) launch(sim *ossim.Sim, args ...string) *process {
	c.t.Helper()
	return c.launchOn([]string{"--cloud-provider=openstack", "--cloud-config=" + write(c.t, "cloud.conf", sim.CloudConf())}, args...)
}

// launchOn is launch on a cloud that flags name.
func (c *cluster) launchOn(cloud []string, args ...string) *process {
	t := c.t
	t.Helper()
	p := &process{running: &running{t: t, address: "127.0.0.1:" + freePort(t)}, webhook: &running{t: t, address: "127.0.0.1:" + freePort(t)}, certDir: t.TempDir()}
	_, port, _ := net.SplitHostPort(p.address)
	_, webhookPort, _ := net.SplitHostPort(p.webhook.address)
	if !slices.Contains(args, selfManaged) {
		args = append(args, "--webhook-cert-dir="+p.certDir)
		if slices.Contains(args, "--webhooks=*") {
			p.writeCertificate()
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), slices.Concat(cloud, []string{"--kubeconfig=" + c.kubeconfig, "--cluster-cidr=10.244.0.0/16",
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--authorization-always-allow-paths=/readyz*,/metrics",
		"--webhook-bind-address=127.0.0.1", "--webhook-secure-port=" + webhookPort}, args)...)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), c.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	p.end = func() string {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
			err := cmd.Wait()
			if lost := err != nil && strings.Contains(stderr.String(), "leader election lost"); err != nil && !lost || p.losesLease != lost {
				t.Errorf("ended with %v:\n%s", err, stderr.String())
			}
		}
		return stderr.String()
	}
	t.Cleanup(func() { p.end() })
	return p
}

// writeCertificate writes a certificate for loopback as an operator would.
func (p *process) writeCertificate() {
	p.t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(p.certDir, name), content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// selfManaged lets the replicas share a certificate in a Secret.
const selfManaged = "--webhook-cert-source=self-managed"

// listens reports whether somebody accepts connections on the webhook port.
func (p *process) listens() bool {
	conn, err := net.DialTimeout("tcp", p.webhook.address, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// The framework binds the webhook port though no webhook is on, and clients hang.
func TestDefectPortBoundWithoutWebhooks(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	p := c.launch(sim, "--leader-elect=false")
	p.wait("/readyz/informers", http.StatusOK)
	p.wait("/readyz", http.StatusOK)
	if p.listens() {
		t.Error("the webhook port is bound although no webhook is on")
	}
	if files, err := os.ReadDir(p.certDir); err != nil || len(files) > 0 {
		t.Errorf("certificates were made for no webhook: %v, %v", files, err)
	}
}

// The framework panics at start with its webhooks on and their port off.
func TestDefectPortZeroPanics(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	p := c.launch(sim, "--leader-elect=false", "--webhooks=*", "--webhook-secure-port=0")
	p.wait("/readyz", http.StatusOK)
	if p.listens() {
		t.Error("a webhook port is bound although it is off")
	}
	if log := p.end(); strings.Contains(log, "panic") || !strings.Contains(log, "Webhooks are not served") {
		t.Errorf("log:\n%s", log)
	}
}

// Without controllers the binary is a webhook server: any number of replicas serve, no lease
// is taken although leader election is on by default, and no Nodes and Services are watched.
func TestBinaryServesOnlyWebhooks(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	args := []string{"--controllers=-*", "--webhooks=*", selfManaged}
	for _, p := range []*process{c.launch(sim, args...), c.launch(sim, args...)} {
		p.wait("/readyz/webhooks", http.StatusOK)
		p.wait("/readyz", http.StatusOK)
		p.wait("/readyz/informers", http.StatusNotFound)
		p.wait("/readyz/node-deletion", http.StatusNotFound)
		p.webhook.wait("/readyz", http.StatusOK)
	}
	if h := c.holder(mainLease); h != "" {
		t.Errorf("%s holds the lease", h)
	}
}

// In the framework a replica that does not lead answers with a cloud that was never
// initialized. Ours asks the cloud, from the first second in which it is ready. Its log is
// JSON where that was asked for, and says nothing of the object at V(4); its metrics begin at
// one millisecond. The framework does otherwise in each of these.
func TestDefectStandbyHasNoCloud(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	leader := c.launch(sim)
	leader.wait("/readyz", http.StatusOK)
	eventually.Met(t, func() string {
		if c.holder(mainLease) == "" {
			return "nobody leads"
		}
		return ""
	})
	holder := c.holder(mainLease)
	standby := c.launch(sim, "--webhooks=*", "--v=4", "--logging-format=json")
	standby.wait("/readyz", http.StatusOK)
	if word := standby.firstWord(); !strings.Contains(word, "does not exist in the cloud") { // asked once, at once
		t.Errorf("ready, the standby says %s", word)
	}
	standby.webhook.wait("/readyz", http.StatusOK)
	c.registerVolumes(standby)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "standby", Annotations: map[string]string{"note": "s3cret"}, Labels: map[string]string{"team": "s3cret"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org",
				VolumeHandle: "11111111-2222-4333-8444-555555555555", VolumeAttributes: map[string]string{"k": "s3cret"}}},
		},
	}
	eventually.Met(t, func() string {
		_, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not exist in the cloud") {
			return "the standby does not repeat the cloud's word: " + errorText(err)
		}
		return ""
	})
	if _, body := standby.get("/metrics", ""); !strings.Contains(body, `isthmus_webhook_request_duration_seconds_bucket{outcome="denied",webhook="persistentvolume-label",le="0.001"}`) {
		t.Errorf("no bucket of one millisecond in the metrics:\n%.3000s", body)
	}
	if now := c.holder(mainLease); now != holder {
		t.Errorf("%s leads instead of %s: this shows nothing about standbys", now, holder)
	}
	log := standby.end()
	if strings.Contains(log, "s3cret") || !strings.Contains(log, `"outcome":"denied"`) {
		t.Errorf("the log shows the object, or no refusal:\n%s", log)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// A leader whose lease is taken away ends, but not before it has served webhooks for as long
// as the API server may take to turn to others.
func TestLeaseLostWhileWebhooksAreServed(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	lease := c.measureLease()
	// Long beside what the creations below take, and within --shutdown-timeout.
	delay := min(max(2*time.Second, 6*lease.pace), 25*time.Second)
	p := c.launch(sim, append(lease.args(), "--webhooks=*", "--webhook-shutdown-delay="+delay.String())...)
	p.losesLease = true
	p.wait("/readyz", http.StatusOK)
	c.waitForLeader()
	c.registerVolumes(p)
	labeled := func() error { // each volume is one that the cloud has not been asked for
		var pv corev1.PersistentVolume
		if err := c.tryVolume(sim.AddVolume("data", "az1").ID, &pv); err != nil {
			return err
		}
		if pv.Labels[corev1.LabelTopologyZone] != "az1" {
			return errors.New("the API server does not ask the webhook")
		}
		return nil
	}
	eventually.NoError(t, labeled)
	c.takeLease()
	served := 0
	serve := func() {
		if err := labeled(); err != nil {
			t.Fatalf("after %d creations since the lease was lost: %v", served, err)
		}
		served++
	}
	eventually.True(t, "the loss of the lease is noticed", func() bool {
		serve()
		status, _ := p.get("/readyz", "")
		return status != http.StatusOK
	})
	for range 5 {
		serve()
	}
	if log := p.end(); !strings.Contains(log, "Draining webhooks") {
		t.Errorf("log:\n%s", log)
	}
}

// firstWord is what p answers about the creation of a PersistentVolume.
func (p *process) firstWord() string {
	p.t.Helper()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"PersistentVolume"},
		"resource":{"version":"v1","resource":"persistentvolumes"},"name":"first","operation":"CREATE","object":{"apiVersion":"v1","kind":"PersistentVolume",
		"metadata":{"name":"first"},"spec":{"csi":{"driver":"cinder.csi.openstack.org","volumeHandle":"99999999-2222-4333-8444-555555555555"}}}}}`
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.webhook.address+pvlabel.Webhook().Path+"?timeout=5s", strings.NewReader(review))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// registerVolumes makes the API server ask p about PersistentVolumes until the test ends.
func (c *cluster) registerVolumes(p *process) {
	c.t.Helper()
	ca, err := os.ReadFile(filepath.Join(p.certDir, "tls.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	w := pvlabel.Webhook()
	url, none := "https://"+p.webhook.address+w.Path, admissionregistrationv1.SideEffectClassNone
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "test"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: w.Name + ".example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}, Rules: w.Rules,
		SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	api := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(c.t.Context(), config, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := api.Delete(context.Background(), config.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
}
