package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
	"github.com/isthmus-cloud/isthmus/test/rbacaudit"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

// compareRoles: in all tests of this package together, nothing was asked for that the roles that ship do
// not allow, and they allow nothing that was not asked for. Those for cert-manager are compared in
// webhooks/certs.
func compareRoles(all []*plane) error {
	var requests []controlplane.Request
	for _, p := range all {
		r, err := p.Requests()
		if err != nil {
			return err
		}
		requests = append(requests, r...)
		for _, one := range r {
			if one.Resource == "certificatesigningrequests" && one.Subresource == "approval" { // admission asks for this, too, and no log has it
				one.Verb, one.Resource, one.Subresource, one.Name = "approve", "signers", "", "kubernetes.io/kubelet-serving"
				requests = append(requests, one)
			}
		}
	}
	const account = "system:serviceaccount:" + manifests.Namespace + ":"
	controllers, server := account+manifests.ServiceAccount, account+manifests.WebhookServiceAccount
	var errs []error
	for file, users := range map[string][]string{
		"base/rbac.yaml":                            {controllers},
		"webhook-manager/rbac.yaml":                 {server},
		"components/webhook-auto/rbac.yaml":         {controllers, server},
		"components/webhook-self-managed/rbac.yaml": {controllers, server},
		kubeletServingRoles:                         {controllers},
	} {
		roles, err := fs.ReadFile(manifests.FS(), file)
		if err != nil {
			return err
		}
		if err := rbacaudit.Compare(roles, users, requests); err != nil {
			errs = append(errs, fmt.Errorf("manifests/%s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

// listing has informers list before they watch, as they do with API servers that cannot send what there
// is by a watch.
const listing = "KUBE_FEATURE_WatchListClient=false"

// All informers have the rights that older API servers ask for, and PersistentVolumes get their labels.
func TestInformersThatList(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	c.env = []string{listing}
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers, always(nodeState{ready: true}))
	volumes := c.client.CoreV1().PersistentVolumes()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "slipped"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "slipped", UID: "x"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: sim.AddVolume("slipped", "az1").ID}},
	}}
	if _, err := volumes.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := volumes.Patch(ctx, pv.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err = errors.Join(err, volumes.Delete(ctx, pv.Name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	p := c.launch(sim, "--leader-elect=false", "--controllers=*,kubelet-serving-csr-approver-controller", "--webhooks=*", selfManaged)
	c.asKubelet(servers[0].Name, "listed", servers[0], nil)
	p.wait("/readyz", http.StatusOK)
	eventually.Met(t, func() string { return c.initialized(servers) })
	eventually.Met(t, func() string {
		if now, err := volumes.Get(t.Context(), pv.Name, metav1.GetOptions{}); err != nil || now.Labels[corev1.LabelTopologyZone] != "az1" {
			return fmt.Sprintf("the PersistentVolume has no zone: %v", err)
		}
		return ""
	})
	c.wantApproved("listed")
}

// A process that only serves webhooks registers them with policy Fail once the Service leads to it,
// restores its certificate, and asks the API server who may read what is not for all.
func TestWebhookManagerBehindItsService(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	c.env = []string{listing}
	kubeconfig := c.webhookAccounts()
	c.clearWebhooks(t.Context())
	t.Cleanup(func() { c.clearWebhooks(context.WithoutCancel(t.Context())) })
	p := c.launch(sim, "--kubeconfig="+kubeconfig, "--controllers=-*", "--webhooks=*", selfManaged, "--webhook-registration=auto", "--webhook-failure-policy=Fail")
	defer p.end()
	p.wait("/readyz", http.StatusOK)
	registered := func() int {
		list, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := registered(); n != 0 {
		t.Errorf("%d webhook configurations with policy Fail, and the Service leads nowhere", n)
	}
	c.createEndpoint(webhooks.DefaultService())
	eventually.Met(t, func() string {
		if registered() == 0 {
			return "the webhooks are not registered"
		}
		return ""
	})
	secrets, name := c.client.CoreV1().Secrets(manifests.Namespace), "isthmus-webhook-tls"
	if _, err := secrets.Patch(t.Context(), name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/tls.crt"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if s, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(s.Data["tls.crt"]) == 0 {
			return fmt.Sprintf("the certificate is not restored: %v", err)
		}
		return ""
	})
	if status, body := p.get("/configz", c.account("reader-of-webhooks", "/configz")); status != http.StatusOK {
		t.Errorf("/configz answers %d %s", status, body)
	}
}

// clearWebhooks removes the registration, the certificate, and the way to who serves.
func (c *cluster) clearWebhooks(ctx context.Context) {
	c.t.Helper()
	var all metav1.ListOptions
	var now metav1.DeleteOptions
	if err := errors.Join(
		c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, now, all),
		c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, now, all),
		c.client.DiscoveryV1().EndpointSlices(manifests.Namespace).DeleteCollection(ctx, now, all),
		ignoreNotFound(c.client.CoreV1().Secrets(manifests.Namespace).Delete(ctx, "isthmus-webhook-tls", now)),
		ignoreNotFound(c.client.CoordinationV1().Leases(manifests.Namespace).Delete(ctx, "isthmus-webhook-registration", now)),
	); err != nil {
		c.t.Error(err)
	}
}

// createEndpoint creates what says that a Service leads to somebody who is ready.
func (c *cluster) createEndpoint(s webhooks.Service) {
	c.t.Helper()
	ready := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	if _, err := c.client.DiscoveryV1().EndpointSlices(s.Namespace).Create(c.t.Context(), slice, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// A Node that somebody has changed since it was last seen is read, and tainted all the same.
func TestTaintOfANodeThatHasChanged(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	name := servers[0].Name
	inprocess.Start(t, inprocess.Options{
		CloudConf: sim.CloudConf(), Args: []string{"--leader-elect=false", "--controllers=cloud-node-lifecycle", "--node-monitor-period=100ms"},
		Kubeconfig: c.before(http.MethodPatch, "/api/v1/nodes/"+name, func() {
			if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"meanwhile"}}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		}),
	})
	sim.StopServer(servers[0].ID)
	eventually.Met(t, func() string {
		if !hasTaint(c.nodes()[name], cloudproviderapi.TaintNodeShutdown) {
			return "the Node of a server that is off has no taint"
		}
		return ""
	})
	if c.nodes()[name].Annotations["changed"] == "" {
		t.Error("the Node was not changed meanwhile: this shows nothing")
	}
}

// before writes a kubeconfig like c's, by which do is called once before a request of that kind gets
// to the API server.
func (c *cluster) before(method, path string, do func()) string {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		c.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1}
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method && r.URL.Path == path {
			once.Do(do)
		}
		proxy.ServeHTTP(w, r)
	}))
	c.t.Cleanup(server.CloseClientConnections)
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, &rest.Config{Host: server.URL}); err != nil {
		c.t.Fatal(err)
	}
	return file
}
