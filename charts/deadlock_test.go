package charts

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// balancer is a Service that the webhooks are asked about.
const balancer = `
apiVersion: v1
kind: Service
metadata: {name: probe}
spec: {type: LoadBalancer, ports: [{port: 80}]}
`

// TestInstallWhileWebhooksFail: webhooks that are registered with policy Fail and that nobody serves hinder
// nothing that it takes to serve them: neither what the chart makes, nor pods and Services in its namespace.
func TestInstallWhileWebhooksFail(t *testing.T) {
	r := newRelease(t)
	static, err := fs.ReadFile(manifests.FS(), "components/webhook-static/webhookconfigurations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	failing := strings.NewReplacer("failurePolicy: Ignore", "failurePolicy: Fail", "kube-system", namespace).Replace(string(static))
	t.Cleanup(func() { r.try("delete", "--ignore-not-found", "-f", r.written(failing)) })
	probe := func(namespace string) string {
		return r.try("--namespace", namespace, "create", "--dry-run=server", "-f", r.written(balancer))
	}
	for _, example := range []string{"openstack.yaml", "openstack-webhooks-apart.yaml"} {
		r.apply(failing)
		eventually.Met(t, func() string {
			if out := probe("default"); !strings.Contains(out, "failed calling webhook") {
				return "a Service elsewhere is not refused: " + out
			}
			return ""
		})
		values := filepath.Join(chart, "examples", example)
		notes := r.helm("install", "isthmus", chart, "--create-namespace", "--values", values)
		if needs := example == "openstack.yaml"; strings.Contains(notes, "create secret generic isthmus-cloud-config") != needs || !strings.Contains(notes, "rollout status daemonset/isthmus-cloud-controller-manager") {
			t.Errorf("%s: the notes say\n%s", example, notes)
		}
		for _, pod := range pods(t, decode(t, template(t, namespace, "--values", values))) {
			pod.Spec.ServiceAccountName = "" // the test's API server lets pods be made without
			object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "probe", "labels": pod.Labels}, "spec": pod.Spec}
			if out := r.try("--namespace", namespace, "create", "--dry-run=server", "-f", r.written(yamlOf(t, object))); !strings.Contains(out, "created") {
				t.Errorf("%s: a pod is refused: %s", example, out)
			}
		}
		if out := probe(namespace); !strings.Contains(out, "created") {
			t.Errorf("%s: a Service beside the webhooks is refused: %s", example, out)
		}
		r.helm("uninstall", "isthmus")
		if out := probe("default"); !strings.Contains(out, "created") {
			t.Errorf("%s: after the removal a Service is refused: %s", example, out)
		}
	}
}

// TestMetricsReader: the token for Prometheus may read the metrics, and nothing else.
func TestMetricsReader(t *testing.T) {
	r := newRelease(t)
	r.helm("install", "isthmus", chart, "--create-namespace", "--values", filepath.Join(chart, "examples", "openstack-webhooks-apart.yaml"))
	defer r.helm("uninstall", "isthmus")
	for path, want := range map[string]bool{"/metrics": true, "/configz": false, "/api/v1/secrets": false} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":isthmus-metrics-reader", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		got, err := plane.Plane(t).Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || got.Status.Allowed != want {
			t.Errorf("%s: allowed %v (%v), want %v", path, got.Status.Allowed, err, want)
		}
	}
}
