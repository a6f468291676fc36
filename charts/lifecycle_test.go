package charts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

var update = flag.Bool("update", false, "store what the chart of this version makes, for the tests of later ones")

// releases has what released versions of the chart have made, by version and example.
const releases = "testdata/releases"

// stored are the examples that are kept of each release.
var stored = []string{"openstack.yaml", "openstack-webhooks-apart.yaml", "credential-provider.yaml"}

const namespace = "isthmus-system"

// yamlOf returns it as YAML.
func yamlOf(t *testing.T, object any) string {
	t.Helper()
	data, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// release is one in a real cluster.
type release struct {
	t       *testing.T
	env     []string
	kubectl func(args ...string) string
	// try is kubectl that may fail; it returns what it says.
	try func(args ...string) string
}

func newRelease(t *testing.T) *release {
	t.Helper()
	p := plane.Plane(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, p.Config); err != nil {
		t.Fatal(err)
	}
	run := p.Kubectl(t)
	r := &release{t: t, env: []string{"KUBECONFIG=" + file}}
	r.try = func(args ...string) string {
		t.Helper()
		out, err := run(context.WithoutCancel(t.Context()), "", args...)
		if err != nil {
			return fmt.Sprint(out, err)
		}
		return out
	}
	r.kubectl = func(args ...string) string {
		t.Helper()
		out, err := run(t.Context(), "", args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	podMonitors, err := os.ReadFile("testdata/podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.apply(string(podMonitors))
	r.kubectl("wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com")
	return r
}

func (r *release) helm(args ...string) string {
	r.t.Helper()
	out, err := helm(r.t, r.env, append([]string{"--namespace", namespace}, args...)...)
	if err != nil {
		r.t.Fatalf("helm %q: %v", args, err)
	}
	return out
}

// written returns a file of YAML documents.
func (r *release) written(documents string) string {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

func (r *release) apply(documents string) {
	r.t.Helper()
	r.kubectl("apply", "-f", r.written(documents))
}
func (r *release) delete(documents string) {
	r.t.Helper()
	r.kubectl("delete", "-f", r.written(documents))
}

// uids returns the UIDs of all objects of the release, and of what the process makes.
func (r *release) uids() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	file := r.written(r.helm("get", "manifest", "isthmus") + "\n---\n" + made)
	var list struct{ Items []*unstructured.Unstructured }
	if err := yaml.Unmarshal([]byte(r.kubectl("get", "-f", file, "-o", "json", "--ignore-not-found")), &list); err != nil {
		r.t.Fatal(err)
	}
	for _, o := range list.Items {
		out[name(o)] = string(o.GetUID())
	}
	return out
}

func name(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// made is what the process makes by itself.
const made = `
apiVersion: v1
kind: Secret
metadata: {name: isthmus-webhook-tls, namespace: isthmus-system}
type: isthmus-cloud.github.io/webhook-certificates
data: {tls.crt: eA==}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: isthmus-webhook-registration, namespace: isthmus-system}
spec: {holderIdentity: somebody}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: isthmus, labels: {app.kubernetes.io/name: isthmus}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: isthmus, labels: {app.kubernetes.io/name: isthmus}}
`

// TestUpgrade: an upgrade from each released version, and the way back, keep every object, and what the
// process has made; after the removal nothing is left.
func TestUpgrade(t *testing.T) {
	if *update {
		storeRelease(t)
	}
	versions, err := os.ReadDir(releases)
	if err != nil || len(versions) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, version := range versions {
		for _, example := range stored {
			t.Run(version.Name()+"/"+example, func(t *testing.T) {
				r := newRelease(t)
				before := r.everything()
				values := filepath.Join(chart, "examples", example)
				r.helm("install", "isthmus", wrapped(t, version.Name(), example), "--create-namespace")
				r.apply(made)
				old := r.uids()
				if len(old) < 6 {
					t.Fatalf("only %d objects: this would show nothing", len(old))
				}
				for _, step := range [][]string{
					{"upgrade", "isthmus", chart, "--values", values},
					{"rollback", "isthmus", "1"},
					{"upgrade", "isthmus", chart, "--values", values, "--set", "image.tag=other,webhooks.failurePolicy=Fail"},
				} {
					r.helm(step...)
					now := r.uids()
					for object, uid := range old {
						if now[object] != uid {
							t.Errorf("after %q %s is another: %q, was %q", step, object, now[object], uid)
						}
					}
				}
				r.helm("uninstall", "isthmus")
				if example == "credential-provider.yaml" { // it serves no webhooks: somebody else's
					r.delete(made)
				}
				if left := slices.DeleteFunc(r.everything(), func(n string) bool { return slices.Contains(before, n) || n == "namespace/"+namespace }); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

// everything is what there is in the cluster, but for events.
func (r *release) everything() []string {
	r.t.Helper()
	kinds := strings.Fields(r.kubectl("api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return strings.HasPrefix(k, "events") })
	return strings.Fields(r.kubectl("get", strings.Join(kinds, ","), "--all-namespaces", "-o", "name"))
}

// wrapped returns a chart that makes what a released one has made.
func wrapped(t *testing.T, version, example string) string {
	t.Helper()
	rendered, err := os.ReadFile(filepath.Join(releases, version, example))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "isthmus")
	for file, content := range map[string]string{
		"Chart.yaml":              "apiVersion: v2\nname: isthmus\nversion: " + version + "\n",
		"rendered.yaml":           string(rendered),
		"templates/rendered.yaml": `{{ .Files.Get "rendered.yaml" }}`,
	} {
		file = filepath.Join(dir, file)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// storeRelease writes what the chart makes now.
func storeRelease(t *testing.T) {
	t.Helper()
	version := regexp.MustCompile(`(?m)^version: (.*)$`).FindStringSubmatch(helmShow(t))[1]
	for _, example := range stored {
		file := filepath.Join(releases, version, example)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(template(t, namespace, "--values", filepath.Join(chart, "examples", example))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func helmShow(t *testing.T) string {
	t.Helper()
	out, err := helm(t, nil, "show", "chart", chart)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
