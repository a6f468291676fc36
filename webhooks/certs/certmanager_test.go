package certs_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/rbacaudit"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

var certificates, issuers = certmanagerv1.SchemeGroupVersion.WithResource("certificates"), certmanagerv1.SchemeGroupVersion.WithResource("issuers")

func newCertManager(t *testing.T, config *rest.Config, name string, issuer cmmeta.IssuerReference) *certs.CertManager {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return certs.NewCertManager(client, objects, certs.CertManagerOptions{
		Secret: types.NamespacedName{Namespace: "kube-system", Name: name}, Issuer: issuer, Hosts: certstest.Hosts(),
		Interval: 100 * time.Millisecond, Overlap: time.Minute,
	})
}

// says waits until s says what it lacks.
func says(t *testing.T, s certs.Source, want string) {
	t.Helper()
	eventually.True(t, want, func() bool { return s.Err() != nil && strings.Contains(s.Err().Error(), want) })
}

// TestCertManager: the real cert-manager issues for two replicas that have the rights that
// ship, and its cainjector writes caBundle. While it renews the certificate three times,
// 2,000 PersistentVolumes are created through both, with policy Fail, and none is refused.
func TestCertManager(t *testing.T) {
	cp := controlplane.Start(t, controlplane.Options{Audit: true})
	config := serviceAccount(t, cp)
	replicas := []*certs.CertManager{
		newCertManager(t, config, "isthmus-webhook-tls", cmmeta.IssuerReference{}),
		newCertManager(t, config, "isthmus-webhook-tls", cmmeta.IssuerReference{}),
	}
	hooks := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
		Name: "test", Annotations: map[string]string{certmanagerv1.WantInjectAnnotation: "kube-system/isthmus-webhook-tls"},
	}}
	var calls atomic.Int64
	for i, source := range replicas {
		hooks.Webhooks = append(hooks.Webhooks, serve(t, source, fmt.Sprintf("replica%d.example.com", i), &calls))
	}
	says(t, replicas[0], "the cluster does not know cert-manager's kinds; install cert-manager, or choose another --webhook-cert-source")
	controlplane.InstallCertManager(t, cp)
	says(t, replicas[0], "cert-manager has not looked at it yet: is its controller running?")
	controlplane.StartCertManager(t, cp)
	for i, s := range replicas {
		eventually.True(t, fmt.Sprintf("replica %d serves", i), func() bool { return s.Err() == nil && holds(t, s, s.CABundle(), time.Now()) })
	}
	if _, err := cp.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), hooks, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "cainjector writes caBundle and the API server calls", func() bool {
		return bytes.Equal(injected(t, cp), replicas[0].CABundle()) && createPV(t, cp, "first") == nil && calls.Load() >= 2
	})
	t.Run("renewals", func(t *testing.T) { testRenewals(t, cp, replicas, &calls) })
	t.Run("registration", func(t *testing.T) { testInjectedRegistration(t, cp, replicas[0]) })
	t.Run("policy", func(t *testing.T) { testPolicy(t, config) })
	t.Run("not ours", func(t *testing.T) { testCertificateNotOurs(t, cp) })
	t.Run("own issuer", func(t *testing.T) { testOwnIssuer(t, cp) })
	t.Run("rights", func(t *testing.T) { testRights(t, cp) })
}

// testPolicy: with the rights that ship, no other issuer signs, and no other Secret is written over.
func testPolicy(t *testing.T, config *rest.Config) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		resource schema.GroupVersionResource
		name     string
		patch    string
	}{
		{certificates, "isthmus-webhook-tls", `{"spec":{"secretName":"bootstrap-token-abcdef"}}`},
		{certificates, "isthmus-webhook-tls", `{"spec":{"issuerRef":{"kind":"ClusterIssuer","name":"isthmus-webhook-tls-ca"}}}`},
		{certificates, "isthmus-webhook-tls", `{"spec":{"issuerRef":{"name":"company"}}}`},
		{certificates, "isthmus-webhook-tls-ca", `{"spec":{"issuerRef":{"group":"example.com"}}}`},
		{issuers, "isthmus-webhook-tls-ca", `{"spec":{"ca":{"secretName":"company"}}}`},
		{issuers, "isthmus-webhook-tls-ca", `{"spec":{"ca":null,"vault":{"server":"https://example.com","path":"x","auth":{}}}}`},
	} {
		_, err := objects.Resource(a.resource).Namespace("kube-system").Patch(t.Context(), a.name, types.MergePatchType, []byte(a.patch), metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'isthmus-webhook-certs'") {
			t.Errorf("%s: %v, want that the policy refuses it", a.patch, err)
		}
	}
}

// testRights: the role that ships allows what was asked for until now, and nothing else.
func testRights(t *testing.T, cp *controlplane.ControlPlane) {
	roles, err := manifests.CertManagerRBAC()
	if err != nil {
		t.Fatal(err)
	}
	requests, err := cp.Requests()
	if err != nil {
		t.Fatal(err)
	}
	if err := rbacaudit.Compare(roles, []string{"system:serviceaccount:" + manifests.Namespace + ":" + manifests.ServiceAccount}, requests); err != nil {
		t.Error(err)
	}
}

func testRenewals(t *testing.T, cp *controlplane.ControlPlane, replicas []*certs.CertManager, calls *atomic.Int64) {
	const pvs, workers = 2000, 10
	before, serials := calls.Load(), map[string]bool{serial(t, replicas[0]): true}
	handshakes := dialing(t, cp, replicas)
	var created atomic.Int64
	var g sync.WaitGroup
	defer g.Wait()
	for w := range workers {
		g.Go(func() {
			for i := w; i < pvs; i += workers {
				if err := createPV(t, cp, fmt.Sprintf("pv-%d", i)); err != nil {
					t.Errorf("a creation failed: %v", err)
				}
				created.Add(1)
			}
		})
	}
	for i := range 3 {
		eventually.True(t, "creations go on", func() bool { return created.Load() > int64(pvs/5*(i+1)) })
		renew(t, cp, "isthmus-webhook-tls")
		for _, s := range replicas {
			eventually.True(t, "a new certificate is served", func() bool { return !serials[serial(t, s)] })
		}
		serials[serial(t, replicas[0])] = true
		if n := created.Load(); n >= pvs {
			t.Errorf("the creations ended before renewal %d", i+1)
		}
	}
	g.Wait()
	if n := calls.Load() - before; n < 2*pvs {
		t.Errorf("%d calls for %d creations, want one of each replica", n, pvs)
	}
	if n := handshakes(); n < 50 {
		t.Errorf("only %d handshakes", n)
	}
}

// dialing connects to every replica over and over, as an API server does that trusts what
// cainjector wrote. The returned function ends it and tells how often.
func dialing(t *testing.T, cp *controlplane.ControlPlane, replicas []*certs.CertManager) (end func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	var g sync.WaitGroup
	g.Go(func() {
		for ctx.Err() == nil {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(injected(t, cp))
			for _, s := range replicas {
				cert, err := s.GetCertificate(nil)
				if err == nil {
					_, err = cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"})
				}
				if err != nil {
					t.Errorf("handshake %d: %v", n.Load(), err)
				}
				n.Add(1)
			}
		}
	})
	return func() int64 {
		cancel()
		g.Wait()
		return n.Load()
	}
}

func serial(t *testing.T, s certs.Source) string {
	t.Helper()
	cert, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf.SerialNumber.String()
}

// injected is the caBundle of the first webhook.
func injected(t *testing.T, cp *controlplane.ControlPlane) []byte {
	t.Helper()
	hooks, err := cp.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(context.WithoutCancel(t.Context()), "test", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	return hooks.Webhooks[0].ClientConfig.CABundle
}

// serve runs a webhook server with source and returns the webhook that calls it.
func serve(t *testing.T, source certs.Source, name string, calls *atomic.Int64) admissionregistrationv1.MutatingWebhook {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Certs: source, Listener: l, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s.Register("test", "/test", admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		calls.Add(1)
		return admission.Allowed("")
	}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	url, fail, none := "https://"+l.Addr().String()+"/test", admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	return admissionregistrationv1.MutatingWebhook{
		Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}},
		}},
	}
}

func createPV(t *testing.T, cp *controlplane.ControlPlane, name string) error {
	t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	_, err := cp.Client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
	return err
}

// testCertificateNotOurs: objects of others stay as they are, and the error says so.
func testCertificateNotOurs(t *testing.T, cp *controlplane.ControlPlane) {
	objects, err := dynamic.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"name": "theirs"},
		"spec": map[string]any{"secretName": "x", "dnsNames": []any{"x"}, "issuerRef": map[string]any{"name": "none"}},
	}}
	client := objects.Resource(certificates).Namespace("kube-system")
	theirs, err = client.Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := newCertManager(t, cp.Config, "theirs", cmmeta.IssuerReference{Name: "none", Kind: "Issuer", Group: "cert-manager.io"})
	defer run(t, s)()
	says(t, s, "Certificate kube-system/theirs exists and is not ours: it lacks the label app.kubernetes.io/managed-by=isthmus-webhook-certs")
	after, err := client.Get(t.Context(), "theirs", metav1.GetOptions{})
	if err != nil || after.GetGeneration() != theirs.GetGeneration() || len(after.GetLabels()) > 0 {
		t.Errorf("it was changed: %v", err)
	}
	if _, err := cp.Client.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s = newCertManager(t, cp.Config, "secret", cmmeta.IssuerReference{})
	defer run(t, s)()
	says(t, s, "the Secret is not of cert-manager's Certificate kube-system/secret, so it stays as it is")
}

// testOwnIssuer: with an issuer of the user's there is one Certificate, and what it waits for is said.
func testOwnIssuer(t *testing.T, cp *controlplane.ControlPlane) {
	group := certmanagerv1.SchemeGroupVersion.Group
	s := newCertManager(t, cp.Config, "own", cmmeta.IssuerReference{Name: "isthmus-webhook-tls-ca", Kind: "Issuer", Group: group})
	defer run(t, s)()
	eventually.True(t, "it is issued", func() bool { return s.Err() == nil && holds(t, s, s.CABundle(), time.Now()) })
	missing := newCertManager(t, cp.Config, "missing", cmmeta.IssuerReference{Name: "nobody", Kind: "ClusterIssuer", Group: group})
	defer run(t, missing)()
	says(t, missing, "Certificate kube-system/missing: ")
	says(t, missing, "Ready=False")
	objects, err := dynamic.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"own-ca", "missing-ca"} {
		if _, err := objects.Resource(certificates).Namespace("kube-system").Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			t.Errorf("Certificate %s was created", name)
		}
	}
}

// serviceAccount returns a client configuration with the rights that ship.
func serviceAccount(t *testing.T, cp *controlplane.ControlPlane) *rest.Config {
	t.Helper()
	for _, read := range []func() ([]byte, error){manifests.RBAC, manifests.CertManagerRBAC, manifests.CertManagerPolicy} {
		rbac, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if err := cp.Apply(t.Context(), rbac); err != nil {
			t.Fatal(err)
		}
	}
	config, err := cp.ServiceAccountConfig(t.Context(), manifests.Namespace, manifests.ServiceAccount, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
