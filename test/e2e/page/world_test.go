//go:build e2e

package page

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/hack/rig"
	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
)

func TestMain(m *testing.M) {
	controlplane.Silence()
	os.Exit(m.Run())
}

// hostile is markup that must stay text.
const hostile = `<script>document.title="owned"</script><img src=https://evil.example/x onerror=alert(1)>`

// world is a cluster on a simulated OpenStack with the real manager, in which not all is well.
type world struct {
	*rig.Cluster
	t       *testing.T
	sim     *ossim.Sim
	servers []ossim.Server
	manager *rig.Process
	// url is the page's, and publicKey that of the manager's certificate.
	url, publicKey string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, sim: ossim.ForTest(t)}
	var err error
	if w.Cluster, err = rig.StartCluster(t.Context(), rig.OurAccount, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.End(); err != nil {
			t.Error(err)
		}
	})
	for _, read := range []func() ([]byte, error){manifests.RegistrationRBAC, manifests.SelfManagedRBAC} {
		rbac, err := read()
		if err == nil {
			err = w.Apply(t.Context(), rbac)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Of our name, and not ours.
	if _, err := w.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "isthmus"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start(dir)
	return w
}

// start starts the manager.
func (w *world) start(dir string) {
	w.t.Helper()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return path
	}
	cert, key := certstest.NewCA(w.t).Issue(w.t, time.Now().Add(time.Hour))
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	digest := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	w.publicKey = base64.StdEncoding.EncodeToString(digest[:])
	port, webhooks := controlplane.MustFreePort(w.t, "127.0.0.1"), controlplane.MustFreePort(w.t, "127.0.0.1")
	w.url = "https://127.0.0.1:" + port + "/status"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	w.manager, err = rig.StartProcess("../../../bin/cloud-controller-manager", filepath.Join(dir, "log"), nil,
		"--cloud-provider=openstack", "--cloud-config="+file("cloud.conf", []byte(w.sim.CloudConf())),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--tls-cert-file="+file("tls.crt", cert), "--tls-private-key-file="+file("tls.key", key),
		"--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true", "--configure-cloud-routes=true", "--route-reconciliation-period=1s", "--node-monitor-period=500ms",
		"--webhooks=*", "--webhook-bind-address=127.0.0.1", "--webhook-secure-port="+webhooks, "--webhook-registration=auto",
		"--webhook-url=https://127.0.0.1:"+webhooks, "--webhook-cert-source=self-managed")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.manager.Stop)
}

// play makes Nodes, Services and volumes, those that are served and those that are not, and waits until the manager has met them all.
func (w *world) play() {
	w.t.Helper()
	w.servers = w.sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "worker-", Zones: []string{"az1", "az2"}})
	var machines []rig.Machine
	for _, s := range w.servers {
		machines = append(machines, rig.Machine{Name: s.Name, UUID: s.ID})
	}
	if err := w.Register(w.t.Context(), append(machines, rig.Machine{Name: "not-in-the-cloud"})); err != nil {
		w.t.Fatal(err)
	}
	w.until("four Nodes", func() bool { return w.Initialized() == 4 })
	for i, s := range w.servers {
		w.patch(s.Name, fmt.Sprintf(`{"spec":{"podCIDR":"10.244.%d.0/24","podCIDRs":["10.244.%d.0/24"]}}`, i, i))
	}
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: corev1.NodeSpec{ProviderID: "other:///" + hostile}})
	w.service("shop")
	w.until("an address", func() bool { return w.Published() == 1 })
	w.until("four routes", func() bool { return w.routed() == 4 })
	w.volume("data", w.sim.AddVolume("data", "az1").ID)
	w.until("labels", func() bool { return w.zone("data") == "az1" })

	w.sim.AddFault(ossim.Fault{Service: "volume", Status: http.StatusTooManyRequests, RetryAfter: time.Hour})
	w.volume("throttled", w.sim.AddVolume("throttled", "az2").ID)
	w.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Status: http.StatusForbidden,
		Body: `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer ` + strings.ReplaceAll(hostile, `"`, `\"`) + `", "debuginfo": null}`})
	w.service("over-quota")
	for _, s := range w.servers { // all at once: their Nodes are held
		w.sim.DeleteServer(s.ID)
		if err := w.Unready(w.t.Context(), s.Name); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	eventually.True(w.t, what, func() bool {
		if err := w.manager.Alive(); err != nil {
			w.t.Fatal(err)
		}
		return done()
	})
}

// routed is how many Nodes have their route.
func (w *world) routed() int {
	n := 0
	for _, node := range w.Nodes() {
		if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Reason == "RouteCreated" }) {
			n++
		}
	}
	return n
}

func (w *world) create(n *corev1.Node) {
	w.t.Helper()
	if _, err := w.Client.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) patch(node, patch string) {
	w.t.Helper()
	if _, err := w.Client.CoreV1().Nodes().Patch(w.t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) service(name string) {
	w.t.Helper()
	_, err := w.Client.CoreV1().Services(metav1.NamespaceDefault).Create(w.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) volume(name, id string) {
	w.t.Helper()
	_, err := w.Client.CoreV1().PersistentVolumes().Create(w.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: id}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// zone is that in a PersistentVolume's labels.
func (w *world) zone(name string) string {
	w.t.Helper()
	v, err := w.Client.CoreV1().PersistentVolumes().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Labels[corev1.LabelTopologyZone]
}

// token makes an account that may read these paths, and returns its token.
func (w *world) token(name string, paths ...string) string {
	w.t.Helper()
	create := metav1.CreateOptions{}
	if _, err := w.Client.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: paths, Verbs: []string{"get"}}}}, create); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Client.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}}}, create); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, create); err != nil {
		w.t.Fatal(err)
	}
	config, err := w.ServiceAccountConfig(w.t.Context(), metav1.NamespaceDefault, name, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return config.BearerToken
}
