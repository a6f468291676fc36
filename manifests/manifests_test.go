package manifests_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/controller-manager/pkg/leadermigration"
	migrationconfig "k8s.io/controller-manager/pkg/leadermigration/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// decode decodes YAML documents into their types, refusing every unknown or repeated field.
func decode(t *testing.T, data []byte) []client.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []client.Object
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		objects = append(objects, object.(client.Object))
	}
}

// build returns what `kubectl kustomize` makes of a folder, with components beside its own.
func build(t *testing.T, folder string, components ...string) []client.Object {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, manifests.FS()); err != nil {
		t.Fatal(err)
	}
	target := folder
	if len(components) > 0 {
		target = "built"
		k := map[string]any{"resources": []string{"../" + folder}}
		for i, c := range components {
			components[i] = "../components/" + c
		}
		k["components"] = components
		write(t, filepath.Join(dir, target, "kustomization.yaml"), k)
	}
	return kustomize(t, filepath.Join(dir, target))
}

// kustomize runs it.
func kustomize(t *testing.T, dir string) []client.Object {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), controlplane.Tool(t, "kubectl"), "kustomize", dir).Output() //nolint:gosec // our own folder
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		t.Fatalf("kustomize %s: %v", dir, err)
	}
	return decode(t, out)
}

// write writes a file of YAML, and its folder.
func write(t *testing.T, file string, content any) {
	t.Helper()
	data, err := yaml.Marshal(content)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(manifests.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func find[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	for _, o := range objects {
		if found, ok := o.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("no %T in the manifests", none)
	return none
}

// TestStrict: every file is a kustomization, a patch, or objects without unknown fields.
func TestStrict(t *testing.T) {
	count := 0
	err := fs.WalkDir(manifests.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch path.Base(name) {
		case "kustomization.yaml", "workload-patch.yaml", "controller-patch.yaml", "subject-patch.yaml": // built by the other tests
		case "iam-policy.json", "iam-policy-tagging.json": // no object; see pkg/providers/aws
		case "prometheusrule.yaml", "dashboard.json": // see charts and test/integration
		case "leader-migration-node-ipam.yaml", "leader-migration-in-tree.yaml": // see TestLeaderMigration
		case "apiserver-admission-configuration.yaml", "apiserver-webhook-kubeconfig.yaml": // see test/integration/webhookserver
		default:
			count += len(decode(t, read(t, name)))
		}
		return nil
	})
	if err != nil || count < 10 {
		t.Errorf("%d objects decoded (error %v): this test would check nothing", count, err)
	}
}

// TestLeaderMigration: the example is read as both controller managers read it, and is
// symmetric: whoever holds the lease runs the controller.
func TestLeaderMigration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leader-migration.yaml")
	if err := os.WriteFile(file, read(t, "examples/leader-migration-node-ipam.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := migrationconfig.ReadLeaderMigrationConfiguration(file)
	if err != nil {
		t.Fatal(err)
	}
	if errs := migrationconfig.ValidateLeaderMigrationConfiguration(config); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, component := range []string{"kube-controller-manager", "cloud-controller-manager"} {
		filter := leadermigration.NewLeaderMigrator(config, component).FilterFunc
		if got := filter("node-ipam-controller"); got != leadermigration.ControllerMigrated {
			t.Errorf("%s treats the controller as %d", component, got)
		}
	}
}

// overlays are what ships to be applied as it is; each has one workload that serves webhooks.
var overlays = []string{"overlays/openstack", "overlays/openstack-webhooks", "overlays/aws", "overlays/aws-webhooks", "overlays/vsphere"}

// workload returns the template of the DaemonSet's or the Deployment's pods.
func workload(t *testing.T, objects []client.Object) corev1.PodTemplateSpec {
	t.Helper()
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			return o.Spec.Template
		case *appsv1.Deployment:
			return o.Spec.Template
		}
	}
	t.Fatal("no workload in the manifests")
	return corev1.PodTemplateSpec{}
}

// TestPiecesFit: what is named in one manifest is what the others and the code name.
func TestPiecesFit(t *testing.T) {
	accounts := map[string]string{}
	for _, overlay := range overlays {
		accounts[overlay] = manifests.ServiceAccount
		if strings.HasSuffix(overlay, "-webhooks") {
			accounts[overlay] = manifests.WebhookServiceAccount
		}
		objects := build(t, overlay)
		pod, svc := workload(t, objects), find[*corev1.Service](t, objects)
		if sa := find[*corev1.ServiceAccount](t, objects); sa.Name != accounts[overlay] || sa.Namespace != manifests.Namespace || pod.Spec.ServiceAccountName != sa.Name {
			t.Errorf("%s: ServiceAccount %s/%s, the pod's is %s", overlay, sa.Namespace, sa.Name, pod.Spec.ServiceAccountName)
		}
		for key, value := range svc.Spec.Selector {
			if pod.Labels[key] != value {
				t.Errorf("%s: the Service selects %s=%s, pods have %q", overlay, key, value, pod.Labels[key])
			}
		}
		if s := webhooks.DefaultService(); svc.Name != s.Name || svc.Namespace != s.Namespace || int(svc.Spec.Ports[0].Port) != registration.NewOptions().ServicePort {
			t.Errorf("%s: Service %s/%s:%d is not the one that is registered", overlay, svc.Namespace, svc.Name, svc.Spec.Ports[0].Port)
		}
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == svc.Spec.Ports[0].TargetPort.StrVal && p.ContainerPort == server.DefaultPort
		}) {
			t.Errorf("%s: no container port %s with %d", overlay, svc.Spec.Ports[0].TargetPort.StrVal, server.DefaultPort)
		}
		for _, o := range objects {
			subjects, role := bound(o)
			want := accounts[overlay]
			if role == manifests.StatusReader {
				want = manifests.StatusReader
			}
			for _, s := range subjects {
				if s.Name != want || s.Namespace != manifests.Namespace || len(subjects) != 1 {
					t.Errorf("%s: %s binds %s to %v", overlay, o.GetName(), role, subjects)
				}
			}
			if role != "" && !strings.HasPrefix(role, "isthmus-") {
				t.Errorf("%s: %s binds %s, which is not ours", overlay, o.GetName(), role)
			}
		}
	}
	pod := workload(t, build(t, "overlays/openstack"))
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(tol corev1.Toleration) bool {
		return tol.Key == "node.cloudprovider.kubernetes.io/uninitialized" && tol.Operator == corev1.TolerationOpExists
	}) {
		t.Error("the pods do not tolerate the taint that they are to remove")
	}
}

// bound returns whom a binding binds to what.
func bound(o client.Object) ([]rbacv1.Subject, string) {
	switch o := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		return o.Subjects, o.RoleRef.Name
	case *rbacv1.RoleBinding:
		return o.Subjects, o.RoleRef.Name
	}
	return nil, ""
}

// TestArgs: the flags about webhooks in the manifests are known, and right together.
func TestArgs(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"openstack":            build(t, overlays[0]),
		"openstack-webhooks":   build(t, overlays[1]),
		"aws":                  build(t, overlays[2]),
		"aws-webhooks":         build(t, overlays[3]),
		"vsphere":              build(t, overlays[4]),
		"base with webhook":    build(t, "base", "webhook"),
		"webhooks only, files": build(t, "webhook-manager", "webhook"),
	} {
		fs, validate := webhookFlags()
		n := 0
		for _, arg := range workload(t, objects).Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--webhook-") {
				n++
				if err := fs.Parse([]string{arg}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s: no --webhook- flag", name)
		}
		if err := validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRBACIsNarrow reads the rules themselves.
func TestRBACIsNarrow(t *testing.T) {
	rules := 0
	check := func(name string, rs []rbacv1.PolicyRule) {
		for _, r := range rs {
			rules++
			for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
				if strings.Contains(word, "*") {
					t.Errorf("%s has a wildcard: %v", name, r)
				}
			}
			if len(r.NonResourceURLs) > 0 && name != "isthmus-metrics-reader" && name != manifests.StatusReader {
				t.Errorf("%s allows URLs: %v", name, r)
			}
			for _, verb := range []string{"escalate", "bind", "impersonate", "deletecollection"} {
				if slices.Contains(r.Verbs, verb) {
					t.Errorf("%s has verb %s: %v", name, verb, r)
				}
			}
		}
	}
	for _, object := range slices.Concat(build(t, overlays[0]), build(t, overlays[1])) {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			check(o.Name, o.Rules)
		case *rbacv1.Role:
			check(o.Name, o.Rules)
		}
	}
	if rules < 12 {
		t.Errorf("only %d rules found: this test would check nothing", rules)
	}
}

// TestRealCluster applies everything to a real kube-apiserver and tries, as the shipped
// ServiceAccount, what it must and what it must not be able to do.
func TestRealCluster(t *testing.T) {
	cp := controlplane.Start(t)
	admin, err := client.New(cp.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Both overlays would have the Service and the components' roles; the names say whose they are.
	var objects []client.Object
	seen := map[string]bool{}
	for _, object := range slices.Concat(build(t, overlays[0]), build(t, overlays[1]), decode(t, read(t, "examples/cloud-config-secret.yaml")), decode(t, read(t, staticFile))) {
		key := object.GetObjectKind().GroupVersionKind().Kind + object.GetName()
		if subjects, _ := bound(object); seen[key] && len(subjects) > 0 {
			object.SetName(object.GetName() + "-of-the-other") // the same role for the other ServiceAccount
		} else if seen[key] {
			continue
		}
		seen[key] = true
		objects = append(objects, object)
	}
	for _, object := range objects {
		// Twice: applying again must change nothing and fail nothing.
		if err := admin.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Errorf("create %T %s: %v", object, object.GetName(), err)
		}
		object.SetManagedFields(nil)
		if err := admin.Update(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Errorf("update %T %s: %v", object, object.GetName(), err)
		}
	}
	as := func(account string) client.Client {
		t.Helper()
		cfg, err := cp.ServiceAccountConfig(t.Context(), manifests.Namespace, account, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sa := as(manifests.ServiceAccount)
	testAccess(t, sa, slices.Concat(must, mustToRegister), mustNot)
	testAccess(t, as(manifests.WebhookServiceAccount), slices.Concat(mustToServe, mustToRegister), slices.Concat(mustNot, mustNotToServe))

	if err := sa.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("list Secrets: %v, want forbidden", err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := sa.Create(t.Context(), pod); !apierrors.IsForbidden(err) {
		t.Errorf("create a Pod: %v, want forbidden", err)
	}
	if err := sa.List(t.Context(), &corev1.NodeList{}); err != nil {
		t.Errorf("list Nodes: %v", err)
	}
}
