package certs_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// renew makes cert-manager renew the certificate, as `cmctl renew` and its own clock do: by the
// condition Issuing.
func renew(t *testing.T, cp *controlplane.ControlPlane, name string) {
	t.Helper()
	objects, err := dynamic.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	client := objects.Resource(certificates).Namespace("kube-system")
	eventually.True(t, "cert-manager is told to renew", func() bool {
		certificate, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.UpdateStatus(t.Context(), issuing(t, certificate), metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func issuing(t *testing.T, certificate *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == string(certmanagerv1.CertificateConditionIssuing)
	})
	conditions = append(conditions, map[string]any{
		"type": string(certmanagerv1.CertificateConditionIssuing), "status": string(cmmeta.ConditionTrue),
		"reason": "ManuallyTriggered", "message": "renewed by a test",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": certificate.GetGeneration(),
	})
	if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	return certificate
}

// testInjectedRegistration: replicas that register with the CA of their own are replaced by
// such that have the real cainjector add cert-manager's. All CAs are trusted then, none is
// missing at any moment, and nobody writes any more.
func testInjectedRegistration(t *testing.T, cp *controlplane.ControlPlane, issued certs.Source) {
	old, young := certstest.NewCA(t), certstest.NewCA(t)
	end := register(t, cp, old.PEM, "")
	api := cp.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	live := func() *admissionregistrationv1.MutatingWebhookConfiguration {
		m, err := api.Get(t.Context(), registration.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: make([]admissionregistrationv1.MutatingWebhook, 1)}
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	trusts := func(ca []byte) bool {
		return bytes.Contains(live().Webhooks[0].ClientConfig.CABundle, bytes.TrimSpace(ca))
	}
	eventually.True(t, "it is registered", func() bool { return trusts(old.PEM) })
	register(t, cp, young.PEM, "kube-system/isthmus-webhook-tls")
	eventually.True(t, "all CAs are trusted", func() bool {
		if !trusts(old.PEM) {
			t.Fatal("the CA of the old replica is gone")
		}
		if trusts(young.PEM) {
			end() // as in a rollout, once the young one is ready
		}
		return trusts(young.PEM) && trusts(issued.CABundle())
	})
	if !slices.ContainsFunc(live().ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return strings.Contains(f.Manager, "cainjector") }) {
		t.Errorf("cainjector wrote nothing: %v", live().ManagedFields)
	}
	eventually.True(t, "they do not fight: nobody writes for three seconds", func() bool {
		settled := live().ResourceVersion
		<-time.After(3 * time.Second)
		return live().ResourceVersion == settled
	})
}

// register runs a replica's registration of a webhook that nobody calls, until the test ends or end
// is called.
func register(t *testing.T, cp *controlplane.ControlPlane, ca []byte, injectFrom string) (end func()) {
	t.Helper()
	o := registration.NewOptions()
	o.Mode, o.URL, o.Client, o.Metrics = registration.Auto, "https://127.0.0.1:1", cp.Client, prometheus.NewRegistry()
	o.CABundle, o.InjectCAFrom = func() []byte { return ca }, injectFrom
	o.Ready = func(context.Context) error { return nil }
	o.Webhooks = []webhooks.Webhook{{Name: "nobody", Path: "/nobody", Type: webhooks.Mutating, Rules: []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
	}}}}
	k, err := registration.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- k.Start(ctx) }()
	end = once(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}
