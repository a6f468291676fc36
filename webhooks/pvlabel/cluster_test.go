package pvlabel_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// cluster is a real kube-apiserver that calls the webhook as a shipped configuration says.
type cluster struct {
	client *kubernetes.Clientset
	// calls counts the requests that reached the webhook.
	calls atomic.Int64
	// sent has the names of the PersistentVolumes in them.
	sent sync.Map
	// stopServer ends the webhook server and waits for it.
	stopServer func()

	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *cluster) HandleWarningHeader(_ int, _ string, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, text)
}

var _ rest.WarningHandler = (*cluster)(nil)

// startCluster starts the API server, and the webhook in a manager that is not the leader.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	cp, c := controlplane.Start(t), &cluster{}
	cfg := rest.CopyConfig(cp.Config)
	cfg.WarningHandler = c
	var err error
	if c.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{MaxBodyBytes: 1 << 20, Certs: certstest.Source(t, t.TempDir()), Listener: listener, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	labels, hangs := pvlabel.New(&volumes{}, admissionregistrationv1.Fail), pvlabel.New(&hanging{}, admissionregistrationv1.Fail)
	s.Register(pvlabel.Name, pvlabel.Path, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		c.calls.Add(1)
		c.sent.Store(req.Name, true)
		if strings.HasPrefix(req.Name, "hanging") {
			return hangs.Handle(ctx, req)
		}
		return labels.Handle(ctx, req)
	}))
	c.stopServer = c.runAsStandby(t, cp, s)

	o := registration.NewOptions()
	o.URL, o.Webhooks = "https://"+listener.Addr().String(), []webhooks.Webhook{pvlabel.Webhook()}
	o.Environment.Provider = &cloud.Provider{Volumes: &volumes{}}
	hooks, _ := registration.Configurations(o, s.CABundle())
	if _, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), hooks, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, func(name string) bool {
		pv, err := c.create(t, static(name, "zonal"))
		return err == nil && pv.Labels[corev1.LabelTopologyZone] == "az1"
	}, "the webhook is called")
	return c
}

// runAsStandby runs s in a manager while another process holds the lease for good.
func (c *cluster) runAsStandby(t *testing.T, cp *controlplane.ControlPlane, s *server.Server) (stop func()) {
	t.Helper()
	other, seconds, now := "another-process", int32(3600), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager", Namespace: metav1.NamespaceSystem},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	if _, err := cp.Client.CoordinationV1().Leases(lease.Namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(cp.Config, manager.Options{
		LeaderElection: true, LeaderElectionID: lease.Name, LeaderElectionNamespace: lease.Namespace,
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
	}()
	t.Cleanup(func() {
		select {
		case <-mgr.Elected():
			t.Error("the manager became leader: this test shows nothing about standbys")
		default:
		}
		cancel()
		<-done
	})
	return func() { cancel(); <-done }
}

// eventually tries with a fresh name each time: the API server takes a moment to take notice.
func (c *cluster) eventually(t *testing.T, done func(name string) bool, what string) {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(what, " ", "-")) + "-"
	eventually.True(t, what, func() bool {
		name += "x"
		return done(name)
	})
}

func (c *cluster) create(t *testing.T, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	t.Helper()
	return c.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{FieldValidation: "Strict"})
}

// edit changes the webhook configuration.
func (c *cluster) edit(t *testing.T, change func(*admissionregistrationv1.MutatingWebhook)) {
	t.Helper()
	api := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	cfg, err := api.Get(t.Context(), "isthmus", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(&cfg.Webhooks[0])
	if _, err := api.Update(t.Context(), cfg, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func volume(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: source,
		},
	}
}

func static(name, id string) *corev1.PersistentVolume {
	return volume(name, corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: id}})
}

func staticCSI(name, id string) *corev1.PersistentVolume {
	return volume(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id}})
}

func required(reqs ...corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: reqs}}}}
}

func TestRealAPIServer(t *testing.T) {
	c := startCluster(t)
	t.Run("mutation", c.testMutation)
	t.Run("refusal", c.testRefusal)
	t.Run("too much", c.testTooMuch)
	t.Run("warning", c.testWarning)
	t.Run("only creations that did not opt out", c.testScope)
	t.Run("only what the cloud has a word about", c.testConditions)
	t.Run("cloud hangs", c.testHanging)
	t.Run("ComplaintServerGone", c.testServerGone) // last: it ends the server
}

func (c *cluster) testMutation(t *testing.T) {
	const zone, region, own = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "topology.cinder.csi.openstack.org/zone"
	dynamic := static("dynamic", "gone") // asking the cloud would refuse it
	dynamic.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "kubernetes.io/cinder"}
	dynamic.Labels = map[string]string{zone: "az9", region: "RegionTwo"}
	tests := []struct {
		pv       *corev1.PersistentVolume
		labels   map[string]string
		affinity *corev1.VolumeNodeAffinity
	}{
		{static("in-tree", "zonal"), map[string]string{zone: "az1", region: "RegionOne"}, required(in(region, "RegionOne"), in(zone, "az1"))},
		{staticCSI("csi", "zonal"), map[string]string{zone: "az1", region: "RegionOne"}, required(in(own, "az1"), in(region, "RegionOne"), in(zone, "az1"))},
		{
			static("multi-zone", "regional"), map[string]string{zone: "az1__az2__az3", region: "RegionOne"},
			required(in(region, "RegionOne"), in(zone, "az1", "az2", "az3")),
		},
		{dynamic, dynamic.Labels, required(in(region, "RegionTwo"), in(zone, "az9"))},
		{static("nowhere", "nowhere"), nil, nil},
		{static("placeholder", "placeholder-for-provisioning"), nil, nil},
		{volume("other", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.pv.Name, func(t *testing.T) {
			dry, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), tt.pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatalf("dry run: %v", err)
			}
			pv, err := c.create(t, tt.pv)
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string]*corev1.PersistentVolume{"object": pv, "dry run": dry} {
				if diff := cmp.Diff(tt.labels, got.Labels); diff != "" {
					t.Errorf("labels of the %s differ (-want +got):\n%s", what, diff)
				}
				if diff := cmp.Diff(tt.affinity, got.Spec.NodeAffinity); diff != "" {
					t.Errorf("affinity of the %s differs (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

func (c *cluster) testRefusal(t *testing.T) {
	const by = `admission webhook "persistentvolume-label.isthmus-cloud.github.io" denied the request: `
	for id, want := range map[string]string{
		"gone":      by + `persistentvolume "refused-gone": volume "gone" does not exist in the cloud; correct the volume's ID`,
		"denied":    by + `persistentvolume "refused-denied": volume "denied": the cloud refused to show it`,
		"throttled": by + `persistentvolume "refused-throttled": volume "throttled": the cloud takes no more requests for now; try again later`,
		"down":      by + `persistentvolume "refused-down": volume "down": its zone could not be read from the cloud`,
	} {
		_, err := c.create(t, static("refused-"+id, id))
		refused := apierrors.IsServiceUnavailable
		if id == "gone" { // only this is about the request
			refused = apierrors.IsForbidden
		}
		if !refused(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %s, want %q", id, err, apierrors.ReasonForError(err), want)
		}
	}
}

// The API server shows why a review is not looked at.
func (c *cluster) testTooMuch(t *testing.T) {
	attributes := func(n, size int) map[string]string {
		out := make(map[string]string, n)
		for i := range n {
			out[strconv.Itoa(i)] = strings.Repeat("x", size)
		}
		return out
	}
	for name, tt := range map[string]struct {
		attributes map[string]string
		want       string
	}{
		"large":   {attributes(10, 110_000), "the body is larger than the limit of 1048576 bytes"},
		"complex": {attributes(33_000, 0), "the body is too complex: more than 32768 values"},
	} {
		pv := staticCSI("too-"+name, "zonal")
		pv.Spec.CSI.VolumeAttributes = tt.attributes
		want := `admission webhook "persistentvolume-label.isthmus-cloud.github.io" denied the request: ` + tt.want
		if _, err := c.create(t, pv); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %.300v, want code 413 and %q", name, err, want)
		}
	}
}

func (c *cluster) testWarning(t *testing.T) {
	pv := static("contradiction", "zonal")
	pv.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "az7"}
	if _, err := c.create(t, pv); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := strings.Join(c.warnings, "\n"); !strings.Contains(all, "failure-domain.beta.kubernetes.io/zone=az7 contradicts") {
		t.Errorf("no warning reached the client: %q", all)
	}
}

func (c *cluster) testScope(t *testing.T) {
	before := c.calls.Load()
	pv := static("opted-out", "gone")
	pv.Labels = map[string]string{pvlabel.OptOutLabel: "true"}
	created, err := c.create(t, pv)
	if err != nil {
		t.Fatal(err)
	}
	created.Labels["other"] = "label"
	if _, err := c.client.CoreV1().PersistentVolumes().Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	labeled, err := c.create(t, static("updated", "zonal"))
	if err != nil {
		t.Fatal(err)
	}
	delete(labeled.Labels, corev1.LabelTopologyZone)
	if labeled, err = c.client.CoreV1().PersistentVolumes().Update(t.Context(), labeled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.CoreV1().PersistentVolumes().Delete(t.Context(), labeled.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.calls.Load() - before; got != 1 {
		t.Errorf("the webhook was called %d times, want once: for the creation of the one without opt-out", got)
	}
}

// testHanging: the webhook answers before the API server gives up, so that its words arrive.
func (c *cluster) testHanging(t *testing.T) {
	c.edit(t, func(w *admissionregistrationv1.MutatingWebhook) { *w.TimeoutSeconds = 2 })
	c.eventually(t, func(name string) bool {
		start := time.Now()
		_, err := c.create(t, static("hanging-"+name, "zonal"))
		if err == nil || !strings.Contains(err.Error(), "the cloud did not answer in time") {
			t.Fatalf("got %v, want that the cloud did not answer in time", err)
		}
		return time.Since(start) < 8*time.Second // of ten before
	}, "the timeout is two seconds")
}

func (c *cluster) testServerGone(t *testing.T) {
	c.stopServer()
	pv, err := c.create(t, static("ignored", "zonal"))
	if err != nil || len(pv.Labels) > 0 {
		t.Errorf("policy Ignore without a server: labels %v, error %v; want an object as it was sent", pv.Labels, err)
	}
	// What the guide says about PersistentVolumes that slipped past, and a backfill relies on:
	// node affinity can be added where there is none, and not be changed then.
	pv.Spec.NodeAffinity = required(in(corev1.LabelTopologyZone, "az1"))
	if pv, err = c.client.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("add node affinity later: %v", err)
	}
	pv.Spec.NodeAffinity = required(in(corev1.LabelTopologyZone, "az2"))
	if _, err := c.client.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("change node affinity later: %v, want that it is invalid", err)
	}
	fail := admissionregistrationv1.Fail
	c.edit(t, func(w *admissionregistrationv1.MutatingWebhook) { w.FailurePolicy = &fail })
	c.eventually(t, func(name string) bool {
		_, err := c.create(t, static(name, "zonal"))
		var status apierrors.APIStatus
		return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError && strings.Contains(err.Error(), "failed calling webhook")
	}, "policy Fail refuses")
	// A webhook of policy Fail without a server kept every PersistentVolume of a cloud from
	// being created (kubernetes/cloud-provider-gcp#699): here only those that it has to see.
	for name, source := range map[string]corev1.PersistentVolumeSource{
		"host": {HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		"nfs":  {NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/"}},
		"csi":  {CSI: &corev1.CSIPersistentVolumeSource{Driver: "nfs.csi.k8s.io", VolumeHandle: "x"}},
	} {
		if _, err := c.create(t, volume("unaffected-"+name, source)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	provisioned := staticCSI("unaffected-provisioned", "zonal")
	provisioned.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": csiDriver}
	if _, err := c.create(t, provisioned); err != nil {
		t.Errorf("provisioned: %v", err)
	}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}
