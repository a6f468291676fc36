package charts

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/manifests"
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
		{"overlays/openstack-webhooks", nil, apart},
		{"overlays/openstack-webhooks", []string{"webhook-client-ca"}, apart + ",webhooks.clientCAConfigMap=isthmus-webhook-client-ca"},
		{"overlays/openstack-webhooks", []string{"webhook-network-policy"}, apart + ",networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={192.0.2.0/24}"},
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
		if err := unstructured.SetNestedMap(o.Object, pod, "spec", "template", "spec"); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
