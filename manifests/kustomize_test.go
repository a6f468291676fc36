package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// TestOtherCertificates: other certificates and registrations go with each workload.
func TestOtherCertificates(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ overlay, certificate, flag, registration string }{
		{overlays[0], "webhook-cert-manager", "--webhook-cert-source=cert-manager", "webhook-auto"},
		{overlays[1], "webhook-files", "--webhook-cert-dir=", "webhook-static"},
	} {
		overlay := replaced(t, dir, tt.overlay, tt.certificate, tt.registration)
		objects := kustomize(t, filepath.Join(dir, overlay))
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
	k["components"] = []string{"../../components/openstack", "../../components/webhook-server", "../../components/" + certificate, "../../components/" + registration}
	name := overlay + "-" + certificate + "-" + registration
	if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, overlay))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name, "kustomization.yaml"), k)
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
		if o.GetName() == manifests.StatusReader {
			continue // who asks the workload
		}
		if len(subjects) != 1 || subjects[0].Name != account || subjects[0].Namespace != "kube-system" {
			t.Errorf("%s: %s is bound to %v, the workload is %s", overlay, o.GetName(), subjects, account)
		}
	}
}
