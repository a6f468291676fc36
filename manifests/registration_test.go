package manifests_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

var update = flag.Bool("update", false, "rewrite the webhook configurations that ship")

const staticFile = "components/webhook-static/webhookconfigurations.yaml"

// environment is what the webhooks of the OpenStack overlays are made for.
func environment(t *testing.T) webhooks.Environment {
	t.Helper()
	p, _, err := openstack.New(t.Context(), ossim.ForTest(t).ConfFile(t, ""), cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return webhooks.Environment{Provider: p, Classes: lb.NewClasses(&p.LoadBalancing, true)}
}

// TestStaticConfigurations: the webhook configurations that ship are those that
// --webhook-registration=auto registers with the default flags.
func TestStaticConfigurations(t *testing.T) {
	o := registration.NewOptions()
	o.Webhooks, o.Environment = hosted.All(), environment(t)
	mutating, validating := registration.Configurations(o, nil)
	if len(mutating.Webhooks) == 0 || len(validating.Webhooks) == 0 {
		t.Fatalf("%d mutating and %d validating webhooks", len(mutating.Webhooks), len(validating.Webhooks))
	}
	want := bytes.NewBufferString("# Written by: go test ./manifests -run TestStaticConfigurations -update\n#\n" +
		"# caBundle is yours to add: see docs/guides/webhooks.md.\n")
	for i, c := range []any{mutating, validating} {
		data, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			want.WriteString("---\n")
		}
		want.Write(data)
	}
	if *update {
		if err := os.WriteFile(staticFile, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), string(read(t, staticFile))); diff != "" {
		t.Errorf("%s is not what would be registered; run this test with -update (-want +got):\n%s", staticFile, diff)
	}
}

const providerFile = "components/provider-objects/rbac.yaml"

// TestProviderObjects: the roles that ship for what a provider uses of the cluster are those that the code asks for.
func TestProviderObjects(t *testing.T) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: manifests.ServiceAccount}
	roles, err := apiclient.ProviderRoles([]cloud.KubeObject{
		{Kind: cloud.KubeSecret, Namespace: manifests.Namespace, Name: "isthmus-provider"}, {Kind: cloud.KubeConfigMap, Namespace: manifests.Namespace, Name: "isthmus-provider"},
	}, account)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Written by: go test ./manifests -run TestProviderObjects -update\n" + strings.TrimPrefix(string(roles), "---\n")
	if *update {
		if err := os.WriteFile(providerFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(read(t, providerFile))); diff != "" {
		t.Errorf("%s is not what a provider needs; run this test with -update (-want +got):\n%s", providerFile, diff)
	}
}

// TestOverlaysHaveWhatTheirProviderUses: a cloud whose configuration, as it ships, names objects of the cluster has the roles for
// them in its overlays, and no other cloud has.
func TestOverlaysHaveWhatTheirProviderUses(t *testing.T) {
	p := environment(t).Provider
	for _, overlay := range overlays {
		objects := build(t, overlay)
		account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: workload(t, objects).Spec.ServiceAccountName}
		roles, err := apiclient.ProviderRoles(p.KubeObjects, account)
		if err != nil {
			t.Fatal(err)
		}
		want, got := decode(t, roles), []client.Object{}
		for _, o := range objects {
			if strings.HasSuffix(o.GetName(), ":provider") {
				got = append(got, o)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: roles of the provider (-want +got):\n%s", overlay, diff)
		}
	}
}

// TestOneCertificateOneRegistration: each overlay that serves webhooks says exactly once
// where the certificate comes from and who registers.
func TestOneCertificateOneRegistration(t *testing.T) {
	for _, overlay := range overlays {
		args := workload(t, build(t, overlay)).Spec.Containers[0].Args
		count := func(flags ...string) (n int) {
			for _, a := range args {
				if name, _, _ := strings.Cut(a, "="); slices.Contains(flags, name) {
					n++
				}
			}
			return n
		}
		for _, flags := range [][]string{{"--webhooks"}, {"--webhook-cert-dir", "--webhook-cert-source"}, {"--webhook-registration"}} {
			if n := count(flags...); n != 1 {
				t.Errorf("%s: %v given %d times", overlay, flags, n)
			}
		}
	}
}
