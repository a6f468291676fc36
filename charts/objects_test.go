package charts

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
)

const valid = "image.registry=registry.example.com/isthmus,cloud.provider=openstack"

// objects are what the chart makes of values.
func objects(t *testing.T, set ...string) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, template(t, namespace, "--set", strings.Join(append([]string{valid}, set...), ",")))
}

// as converts an object to its type, without unknown fields.
func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return out
}

// one returns the only object of a kind.
func one[T any](t *testing.T, all []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	found := find(all, kind)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return as[T](t, found[0])
}

// pods are the pods of all workloads.
func pods(t *testing.T, all []*unstructured.Unstructured) (out []corev1.PodTemplateSpec) {
	t.Helper()
	for _, o := range find(all, "DaemonSet") {
		out = append(out, as[appsv1.DaemonSet](t, o).Spec.Template)
	}
	for _, o := range find(all, "Deployment") {
		out = append(out, as[appsv1.Deployment](t, o).Spec.Template)
	}
	if manifest := staticPod(t, all); manifest != "" {
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
			t.Fatal(err)
		}
		out = append(out, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec})
	}
	return out
}

// TestPods: what holds for the pods of all examples: nobody else's image, no right too many, no volume that
// a webhook could keep from being there, and a limit that Go keeps to.
func TestPods(t *testing.T) {
	for _, file := range examples(t) {
		all := pods(t, decode(t, template(t, namespace, "--values", file)))
		if len(all) == 0 {
			t.Errorf("%s: no pods", file)
		}
		for _, pod := range all {
			c := pod.Spec.Containers[0]
			if !strings.HasPrefix(c.Image, "registry.example.com/isthmus/") && !strings.HasPrefix(c.Image, "mirror.example.com/isthmus/") {
				t.Errorf("%s: image %s", file, c.Image)
			}
			s := c.SecurityContext
			if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Privileged != nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || pod.Spec.SecurityContext.SeccompProfile == nil {
				t.Errorf("%s: %s has more rights than it needs: %+v", file, c.Name, s)
			}
			for _, v := range pod.Spec.Volumes {
				if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
					t.Errorf("%s: volume %s", file, v.Name)
				}
			}
			if pod.Spec.PriorityClassName == "" || !strings.HasPrefix(pod.Spec.PriorityClassName, "system-") {
				t.Errorf("%s: priority %q", file, pod.Spec.PriorityClassName)
			}
			i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
			limit := c.Resources.Limits.Memory().Value()
			if i < 0 || limit == 0 || goMemory(t, c.Env[i].Value)*100/limit < 85 || goMemory(t, c.Env[i].Value)*100/limit > 92 {
				t.Errorf("%s: limit %d, environment %v", file, limit, c.Env)
			}
		}
	}
}

// goMemory reads a GOMEMLIMIT.
func goMemory(t *testing.T, value string) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(strings.TrimSuffix(value, "B"))
	if err != nil {
		t.Fatal(err)
	}
	return q.Value()
}

// TestControlPlaneNodes: controllers run on control-plane nodes of every kind, from their first moment on, and
// on no others.
func TestControlPlaneNodes(t *testing.T) {
	const role = "node-role.kubernetes.io/"
	fresh := []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/network-unavailable", Effect: corev1.TaintEffectNoSchedule}}
	for name, tt := range map[string]struct {
		labels map[string]string
		taints []corev1.Taint
		want   bool
	}{
		"kubeadm":                   {map[string]string{role + "control-plane": ""}, []corev1.Taint{{Key: role + "control-plane", Effect: corev1.TaintEffectNoSchedule}}, true},
		"k3s":                       {map[string]string{role + "control-plane": "true", role + "master": "true"}, nil, true},
		"k3s, for critical add-ons": {map[string]string{role + "control-plane": "true"}, []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoExecute}}, true},
		"RKE2 of Rancher": {map[string]string{role + "control-plane": "true", role + "etcd": "true"},
			[]corev1.Taint{{Key: role + "control-plane", Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: role + "etcd", Value: "true", Effect: corev1.TaintEffectNoExecute}}, true},
		"a worker":         {map[string]string{role + "worker": "true"}, nil, false},
		"a tainted server": {map[string]string{role + "control-plane": "true"}, []corev1.Taint{{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule}}, false},
	} {
		for _, kind := range []string{"DaemonSet", "Deployment"} {
			pod := pods(t, objects(t, "controller.kind="+kind))[0].Spec
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels.Merge(tt.labels, map[string]string{corev1.LabelOSStable: "linux"})}, Spec: corev1.NodeSpec{Taints: append(fresh, tt.taints...)}}
			matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: pod}).Match(node)
			if err != nil {
				t.Fatal(err)
			}
			_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Tolerations, nil, false)
			if got := matches && !untolerated; got != tt.want {
				t.Errorf("%s: the %s runs there: %v, want %v (affinity %v, taints hinder %v)", name, kind, got, tt.want, matches, untolerated)
			}
		}
	}
}

// TestForms: what differs between the forms.
func TestForms(t *testing.T) {
	deployment := objects(t, "controller.kind=Deployment", "controller.replicas=3", "controller.hostNetwork=false")
	d := one[appsv1.Deployment](t, deployment, "Deployment")
	if *d.Spec.Replicas != 3 || d.Spec.Template.Spec.HostNetwork || len(d.Spec.Template.Spec.TopologySpreadConstraints) != 2 || len(find(deployment, "PodDisruptionBudget")) != 1 {
		t.Errorf("the Deployment: %+v", d.Spec)
	}
	static := objects(t, "controller.kind=StaticPod")
	pod := pods(t, static)[0]
	if accounts := find(static, "ServiceAccount"); len(accounts) != 1 || accounts[0].GetName() != manifests.StatusReader || pod.Spec.ServiceAccountName != "" || !pod.Spec.HostNetwork || !slices.Contains(pod.Spec.Containers[0].Args, "--kubeconfig=/etc/isthmus/kubeconfig") {
		t.Errorf("the static pod: %+v", pod.Spec)
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath == nil {
			t.Errorf("volume %s of a static pod is not of the node", v.Name)
		}
	}
	for _, o := range append(find(static, "RoleBinding"), find(static, "ClusterRoleBinding")...) {
		b := as[rbacv1.RoleBinding](t, o)
		if o.GetName() == manifests.StatusReader {
			continue
		}
		if len(b.Subjects) != 1 || b.Subjects[0].Kind != "User" || b.Subjects[0].Name != "isthmus-cloud-controller-manager" {
			t.Errorf("%s is bound to %v", o.GetName(), b.Subjects)
		}
	}
	if provider := objects(t, "controller.kind=None", "webhooks.enabled=false", "credentialProvider.enabled=true", "credentialProvider.files.options=x"); len(provider) != 2 {
		t.Errorf("the credential provider takes %d objects, want a DaemonSet and a Secret, without any right", len(provider))
	}
}

// TestWebhooksHaveAnIdentityOfTheirOwn: what annotates all ServiceAccounts can be said anew for that of the webhooks.
func TestWebhooksHaveAnIdentityOfTheirOwn(t *testing.T) {
	const role = `eks\.amazonaws\.com/role-arn`
	for own, want := range map[string]string{"": "a", "b": "b"} {
		set := []string{"webhooks.deployment.enabled=true", "serviceAccountAnnotations." + role + "=a", "serviceAccountAnnotations.team=x"}
		if own != "" {
			set = append(set, "webhooks.deployment.serviceAccountAnnotations."+role+"="+own)
		}
		got := map[string]map[string]string{}
		for _, o := range find(objects(t, set...), "ServiceAccount") {
			got[o.GetName()] = o.GetAnnotations()
		}
		if diff := gocmp.Diff(map[string]map[string]string{
			manifests.ServiceAccount:        {"eks.amazonaws.com/role-arn": "a", "team": "x"},
			manifests.WebhookServiceAccount: {"eks.amazonaws.com/role-arn": want, "team": "x"},
			manifests.StatusReader:          nil,
		}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestMonitoring: the chart has the alerts and the dashboard of the manifests, as the Prometheus operator and Grafana's sidecar take them.
func TestMonitoring(t *testing.T) {
	all := objects(t, "prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus", "dashboard.enabled=true")
	rule := one[monitoringv1.PrometheusRule](t, all, "PrometheusRule")
	shipped := func(name string) []byte {
		data, err := fs.ReadFile(manifests.FS(), "monitoring/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := &monitoringv1.PrometheusRule{}
	if err := yaml.UnmarshalStrict(shipped("prometheusrule.yaml"), want); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want.Spec, rule.Spec); diff != "" || len(rule.Spec.Groups) == 0 || rule.Labels["release"] != "prometheus" {
		t.Errorf("labels %v, alerts: %s", rule.Labels, diff)
	}
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ConfigMap" && o.GetName() == "isthmus-dashboard"
	})
	if i < 0 {
		t.Fatal("no dashboard")
	}
	dashboard := as[corev1.ConfigMap](t, all[i])
	if dashboard.Labels["grafana_dashboard"] != "1" || dashboard.Data["isthmus.json"] != string(shipped("dashboard.json")) {
		t.Errorf("labels %v, or another dashboard than the manifests'", dashboard.Labels)
	}
	for _, o := range objects(t) {
		if o.GetKind() == "PrometheusRule" || o.GetName() == "isthmus-dashboard" {
			t.Errorf("%s is there without being asked for", o.GetName())
		}
	}
}

// TestPodMonitor: the PodMonitor has only fields that the Prometheus operator knows, and leads to ports and
// a token that are there.
func TestPodMonitor(t *testing.T) {
	all := decode(t, template(t, namespace, "--values", filepath.Join(chart, "examples", "openstack-webhooks-apart.yaml")))
	m := one[monitoringv1.PodMonitor](t, all, "PodMonitor")
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := m.Spec.PodMetricsEndpoints[0]
	for _, pod := range pods(t, all) {
		if !selector.Matches(labels.Set(pod.Labels)) || !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == *endpoint.Port }) {
			t.Errorf("pods with %v are not asked for metrics", pod.Labels)
		}
	}
	token := endpoint.Authorization.Credentials
	if !slices.ContainsFunc(find(all, "Secret"), func(o *unstructured.Unstructured) bool { return o.GetName() == token.Name }) {
		t.Errorf("no Secret %s", token.Name)
	}
}
