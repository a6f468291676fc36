package charts

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// TestKustomize: what helm makes of the chart is what the real kustomize makes of the manifests.
func TestKustomize(t *testing.T) {
	const apart = "controller.kind=None,webhooks.deployment.enabled=true"
	for _, tt := range []struct {
		resources  string
		components []string
		set        string
	}{
		{resources: "overlays/openstack"},
		{"base", []string{"openstack", "metrics-reader"}, "webhooks.enabled=false"},
		{"base", []string{"openstack", "metrics-reader", "webhook-server", "webhook-cert-manager", "webhook-auto"}, "webhooks.certificate.source=cert-manager"},
		{"base", []string{"openstack", "metrics-reader", "webhook-server", "webhook-files", "webhook-auto"}, "webhooks.certificate.source=files"},
		{"overlays/openstack", []string{"provider-objects"}, kubeObjects(cloud.KubeObject{Kind: cloud.KubeSecret, Namespace: manifests.Namespace, Name: "isthmus-provider"},
			cloud.KubeObject{Kind: cloud.KubeConfigMap, Namespace: manifests.Namespace, Name: "isthmus-provider"})},
		{"overlays/openstack", []string{"kubelet-serving-csr-approver"}, "controller.controllers={*,kubelet-serving-csr-approver-controller}"},
		{"overlays/openstack-webhooks", nil, apart},
		{"overlays/openstack-webhooks", []string{"webhook-client-ca"}, apart + ",webhooks.clientCAConfigMap=isthmus-webhook-client-ca"},
		{"overlays/openstack-webhooks", []string{"webhook-network-policy"}, apart + ",networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={192.0.2.0/24}"},
		{"overlays/aws", nil, "cloud.provider=aws,cloud.config.secretName="},
		{"overlays/aws-webhooks", nil, apart + ",cloud.provider=aws,cloud.config.secretName="},
		{"overlays/aws-webhooks", []string{"webhook-host-network"}, apart + ",cloud.provider=aws,cloud.config.secretName=,webhooks.deployment.hostNetwork=true,webhooks.deployment.securePort=10268"},
		{"overlays/vsphere", nil, "cloud.provider=vsphere"},
		{"base", []string{"aws-cloud-config", "metrics-reader"}, "webhooks.enabled=false,cloud.provider=aws"},
		{"credential-provider", nil, "controller.kind=None,webhooks.enabled=false,credentialProvider.enabled=true"},
		{"credential-provider", []string{"credential-provider-restart"}, "controller.kind=None,webhooks.enabled=false,credentialProvider.enabled=true,credentialProvider.restartKubelet=true"},
	} {
		t.Run(tt.resources+"/"+strings.Join(tt.components, "+"), func(t *testing.T) {
			args := []string{"--set", "image.registry=registry.invalid/isthmus,image.tag=any,cloud.provider=openstack"}
			if tt.set != "" {
				args = append(args, "--set", tt.set)
			}
			want, got := normal(t, kustomize(t, tt.resources, tt.components)), normal(t, template(t, manifests.Namespace, args...))
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("(-kustomize +helm):\n%s", diff)
			}
		})
	}
}

// kubeObjects are values for what a provider uses of the cluster.
func kubeObjects(objects ...cloud.KubeObject) string {
	var out []string
	for n, o := range objects {
		out = append(out, fmt.Sprintf("cloud.kubeObjects[%[1]d].kind=%[2]s,cloud.kubeObjects[%[1]d].namespace=%[3]s,cloud.kubeObjects[%[1]d].name=%[4]s", n, o.Kind, o.Namespace, o.Name))
	}
	return strings.Join(out, ",")
}

// TestProviderObjects: the chart gives a provider the rights that the code asks for, whatever it uses.
func TestProviderObjects(t *testing.T) {
	uses := []cloud.KubeObject{{Kind: cloud.KubeConfigMap, Namespace: "b", Name: "m"}, {Kind: cloud.KubeSecret, Namespace: "a", Name: "s"},
		{Kind: cloud.KubeConfigMap, Namespace: "b", Name: "n"}, {Kind: cloud.KubeSecret, Namespace: "b", Name: "s"}}
	provider := func(documents string) map[string]any {
		t.Helper()
		out := map[string]any{}
		for name, o := range normal(t, documents) {
			if strings.Contains(name, ":provider") {
				out[name] = o
			}
		}
		return out
	}
	for set, accounts := range map[string][]string{
		"webhooks.enabled=false":                                                      {manifests.ServiceAccount},
		"webhooks.deployment.enabled=true":                                            {manifests.ServiceAccount, manifests.WebhookServiceAccount},
		"webhooks.deployment.enabled=true,controller.kind=None":                       {manifests.WebhookServiceAccount},
		"webhooks.enabled=false,controller.kind=None,credentialProvider.enabled=true": nil,
	} {
		want := map[string]any{}
		for n, account := range accounts {
			roles, err := apiclient.ProviderRoles(uses, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account})
			if err != nil {
				t.Fatal(err)
			}
			for name, o := range provider(string(roles)) {
				if binding, ok := want[name].(map[string]any); ok && n > 0 && binding["subjects"] != nil {
					binding["subjects"] = append(binding["subjects"].([]any), o.(map[string]any)["subjects"].([]any)...)
					continue
				}
				want[name] = o
			}
		}
		got := provider(template(t, namespace, "--set", valid+","+set+","+kubeObjects(uses...)))
		if diff := gocmp.Diff(want, got); diff != "" || len(got) != 4 && accounts != nil {
			t.Errorf("%s: (-code +chart):\n%s", set, diff)
		}
	}
}

// kustomize runs it on a folder of the manifests, with components beside its own.
func kustomize(t *testing.T, resources string, components []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	text := "resources: [../" + resources + "]\ncomponents:\n"
	for _, c := range components {
		text += "  - ../components/" + c + "\n"
	}
	if err := os.Mkdir(filepath.Join(dir, "built"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "built", "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), controlplane.Tool(t, "kubectl"), "kustomize", filepath.Join(dir, "built")).CombinedOutput() //nolint:gosec // our own folder
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// normal returns objects by name, without what only Helm's have, and with lists whose order means
// nothing in one order.
func normal(t *testing.T, documents string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, o := range decode(t, documents) {
		key := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
		if out[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		// Labels that select are in pods and selectors.
		o.SetLabels(nil)
		out[key] = o.Object
		pod, ok, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		container := pod["containers"].([]any)[0].(map[string]any)
		container["image"] = strings.TrimSuffix(container["image"].(string), ":any")
		for _, list := range []any{container["args"], container["volumeMounts"], container["ports"], pod["volumes"]} {
			items, _ := list.([]any)
			slices.SortFunc(items, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for _, holder := range []map[string]any{container, pod} { // none and an empty list are the same
			maps.DeleteFunc(holder, func(_ string, v any) bool { items, ok := v.([]any); return ok && len(items) == 0 })
		}
		if err := unstructured.SetNestedMap(o.Object, pod, "spec", "template", "spec"); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
