package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// TestKustomize: the real kustomize makes of the overlays what build makes of them here, and
// other certificates and registrations go with each workload.
func TestKustomize(t *testing.T) {
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(kubectl); err != nil {
		kubectl = "../bin/kubectl"
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	kustomize := func(overlay string) []client.Object {
		out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(dir, overlay)).Output() //nolint:gosec // our own folder
		if err != nil {
			t.Fatalf("%s: %v", overlay, err)
		}
		return decode(t, out)
	}
	byName := func(objects []client.Object) map[string]client.Object {
		out := map[string]client.Object{}
		for _, o := range objects {
			out[fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())] = o
		}
		return out
	}
	for _, overlay := range overlays {
		if diff := cmp.Diff(byName(build(t, overlay, nil)), byName(kustomize(overlay))); diff != "" {
			t.Errorf("%s (-here +kustomize):\n%s", overlay, diff)
		}
	}
	for _, tt := range []struct{ overlay, certificate, flag, registration string }{
		{overlays[0], "webhook-cert-manager", "--webhook-cert-source=cert-manager", "webhook-auto"},
		{overlays[1], "webhook-files", "--webhook-cert-dir=", "webhook-static"},
	} {
		overlay := replaced(t, dir, tt.overlay, tt.certificate, tt.registration)
		objects := kustomize(overlay)
		args := workload(t, objects).Spec.Containers[0].Args
		has := func(prefix string) bool {
			return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) })
		}
		if !has("--webhooks=*") || !has(tt.flag) || has("--webhook-registration=auto") != (tt.registration == "webhook-auto") {
			t.Errorf("%s: %v", overlay, args)
		}
		static := slices.ContainsFunc(objects, func(o client.Object) bool {
			_, ok := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			return ok
		})
		if static != (tt.registration == "webhook-static") {
			t.Errorf("%s: webhook configurations in it: %v", overlay, static)
		}
		checkSubjects(t, overlay, objects)
	}
}

// replaced writes an overlay like the given one, with another certificate and registration.
func replaced(t *testing.T, dir, overlay, certificate, registration string) string {
	t.Helper()
	var k map[string]any
	if err := yaml.Unmarshal(read(t, overlay+"/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	k["components"] = []string{"../../components/webhook-server", "../../components/" + certificate, "../../components/" + registration}
	data, err := yaml.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	name := overlay + "-" + certificate + "-" + registration
	if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, overlay))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name, "kustomization.yaml"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// checkSubjects: what is bound is bound to the workload's ServiceAccount, and to no other.
func checkSubjects(t *testing.T, overlay string, objects []client.Object) {
	t.Helper()
	account := workload(t, objects).Spec.ServiceAccountName
	for _, o := range objects {
		var subjects []rbacv1.Subject
		switch b := o.(type) {
		case *rbacv1.RoleBinding:
			subjects = b.Subjects
		case *rbacv1.ClusterRoleBinding:
			subjects = b.Subjects
		default:
			continue
		}
		if len(subjects) != 1 || subjects[0].Name != account || subjects[0].Namespace != "kube-system" {
			t.Errorf("%s: %s is bound to %v, the workload is %s", overlay, o.GetName(), subjects, account)
		}
	}
}
