// Package charts holds the Helm chart. Its tests run the real helm, kustomize and kube-apiserver.
package charts

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

const chart = "isthmus"

var plane controlplane.Shared

func TestMain(m *testing.M) { plane.Main(m) }

// helm runs it, and returns what it prints on stdout. An error has what it says.
func helm(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	// The go command takes notice of which files a test reads: without that, results would be taken
	// from its cache.
	err := filepath.WalkDir(chart, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), controlplane.Tool(t, "helm"), args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Env = append(cmd.Env, env...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if cmd.Run() != nil {
		return out.String(), errors.New(problem.String())
	}
	return out.String(), nil
}

// template returns what the chart makes in a namespace, for a release whose name YAML would take for a number.
func template(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := helm(t, nil, append([]string{"template", "1e5", chart, "--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatalf("helm template %q: %v", args, err)
	}
	return out
}

// examples are the values that ship as examples.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("examples %q, %v", files, err)
	}
	return files
}

// decode decodes YAML documents.
func decode(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := d.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatalf("%v in\n%s", err, documents)
		case len(u.Object) > 0:
			objects = append(objects, u)
		}
	}
}

// find returns the objects of a kind.
func find(objects []*unstructured.Unstructured, kind string) (found []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// staticPod returns the manifest for the kubelet's folder, or "".
func staticPod(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	for _, o := range find(objects, "ConfigMap") {
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil || len(data) != 1 {
			t.Fatalf("ConfigMap %s: %v", o.GetName(), err)
		}
		for _, manifest := range data {
			return manifest
		}
	}
	return ""
}

// TestDryRun: a real kube-apiserver takes what helm makes of every example, without a field that it
// does not know, elsewhere than in kube-system, too.
func TestDryRun(t *testing.T) {
	kubectl := plane.Plane(t).Kubectl(t)
	run := func(input string, args ...string) {
		t.Helper()
		if out, err := kubectl(t.Context(), input, args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const other = "2026" // no number for YAML, either
	run("apiVersion: v1\nkind: Namespace\nmetadata: {name: '"+other+"'}\n", "apply", "-f", "-")
	podMonitors, err := os.ReadFile("testdata/podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run(string(podMonitors), "apply", "-f", "-")
	run("", "wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com")
	for _, file := range examples(t) {
		namespaces := []string{other}
		if filepath.Base(file) == "openstack.yaml" {
			namespaces = append(namespaces, "kube-system")
		}
		for _, namespace := range namespaces {
			t.Run(filepath.Base(file)+"/"+namespace, func(t *testing.T) {
				rendered := template(t, namespace, "--values", file)
				objects := decode(t, rendered)
				if out, err := kubectl(t.Context(), rendered, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil || strings.Count(out, "server dry run") != len(objects) {
					t.Errorf("%v: %d objects\n%s", err, len(objects), out)
				}
				if pod := staticPod(t, objects); pod != "" {
					if out, err := kubectl(t.Context(), pod, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
						t.Errorf("the static pod: %v\n%s", err, out)
					}
				}
				elsewhere(t, objects, namespace)
			})
		}
	}
}

// elsewhere: only what must be in another namespace than the release's is.
func elsewhere(t *testing.T, objects []*unstructured.Unstructured, namespace string) {
	t.Helper()
	allowed := []string{"Role kube-system/isthmus-cloud-controller-manager", "RoleBinding kube-system/isthmus-cloud-controller-manager",
		"Role default/isthmus-webhook-events", "RoleBinding default/isthmus-webhook-events"}
	for _, o := range objects {
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if o.GetNamespace() != "" && o.GetNamespace() != namespace && !slices.Contains(allowed, name) {
			t.Errorf("%s is not in %s", name, namespace)
		}
	}
	if namespace == "kube-system" {
		return
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "Role", "ClusterRole": // leases and the UID of kube-system
			continue
		}
		copied := o.DeepCopy()
		if o.GetNamespace() == "kube-system" {
			copied.SetNamespace("")
		}
		if text, err := copied.MarshalJSON(); err != nil || strings.Contains(string(text), "kube-system") {
			t.Errorf("%s %s names kube-system (%v): %s", o.GetKind(), o.GetName(), err, text)
		}
	}
}

// TestLint: helm finds nothing to warn about.
func TestLint(t *testing.T) {
	for _, file := range examples(t) {
		if out, err := helm(t, nil, "lint", chart, "--strict", "--values", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestNames: a value is what it says, whatever it would mean to YAML or to the policy's language.
func TestNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	values := `
image: {registry: "[fd00::1]:5000"}
cloud: {provider: openstack, config: {secretName: "1"}}
controller: {kind: StaticPod, clusterName: "prod: #1", staticPod: {user: "o'neill: \"ccm\" #1", directory: "/etc/a: #b"}}
webhooks: {certificate: {source: cert-manager, secretName: "2", issuer: "ClusterIssuer/a: #b"}}
imagePullSecrets: ["3"]
credentialProvider: {enabled: true, secretName: "4", files: {"5": x}, binDir: "/a: #b", configDir: "/c: #d"}
`
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string][]string{
		"StaticPod": {
			`- --cluster-name=prod: #1`, `- --webhook-cert-manager-issuer=ClusterIssuer/a: #b`, `path: /etc/a: #b`, `name: o'neill: "ccm" #1`,
			`"o'neill: \"ccm\" #1"]`, `image: [fd00::1]:5000/`, `- 2`, `name: 3`, `secretName: 4`, `5: eA==`, `mountPath: /c: #d`, `- --bin-dir=/a: #b`,
		},
		"DaemonSet": {`secretName: 1`, `- --cluster-name=prod: #1`, `name: 3`},
	} {
		rendered := template(t, "2026", "--values", file, "--set", "controller.kind="+kind)
		objects := decode(t, rendered)
		if pod := staticPod(t, objects); pod != "" {
			objects = append(objects, decode(t, pod)...)
		}
		found := map[string]bool{}
		for _, o := range objects {
			scalars(o.Object, "", found)
		}
		for _, w := range want {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(s string) bool { return strings.Contains(s, w) }) {
				t.Errorf("%s: nothing has %s", kind, w)
			}
		}
	}
}

// scalars are the strings in a value, each with its key, or a dash in a list.
func scalars(value any, key string, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			scalars(inner, k+": ", found)
		}
	case []any:
		for _, inner := range v {
			scalars(inner, "- ", found)
		}
	case string:
		found[key+v] = true
	}
}

// TestRefused: values that would pull a stranger's image, make nothing that works, or are unknown.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct{ set, want string }{
		"no registry":                {"cloud.provider=openstack", "/image/registry"},
		"a stranger's on Docker Hub": {"cloud.provider=openstack,image.registry=isthmus", "/image/registry"},
		"no cloud":                   {"image.registry=registry.example.com", "cloud.provider: required"},
		"an unknown cloud":           {"image.registry=registry.example.com,cloud.provider=openstak", "/cloud/provider"},
		"an unknown key":             {valid + ",controler.kind=None", "controler"},
		"an unknown key below":       {valid + ",webhooks.certificate.sauce=files", "sauce"},
		"a limit without unit":       {valid + ",controller.resources.limits.memory=1000000", "/controller/resources/limits/memory"},
		"nobody serves webhooks":     {valid + ",controller.kind=None", "nobody serves them"},
		"one port twice":             {valid + ",webhooks.port=10258", "webhooks.port"},
		"a policy for nothing":       {valid + ",networkPolicy.enabled=true", "no policy holds for pods on the nodes' network"},
		"a label of the chart's own": {valid + `,podLabels.app\.kubernetes\.io/name=mine`, "invalid propertyName"},
		"an issuer that is not read": {valid + ",webhooks.certificate.issuer=my-ca", "webhooks.certificate.issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, nil, "template", "release", chart, "--set", tt.set)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an error with %q\n%.500s", err, tt.want, out)
			}
		})
	}
}
