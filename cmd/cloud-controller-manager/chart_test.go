package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

const chart = "../../charts/isthmus"

// The flags that the chart sets in its examples, and for all of its values, are right together.
func TestFlagsInChart(t *testing.T) {
	var examples []string
	for _, name := range slices.Sorted(maps.Keys(providers.All())) {
		some, err := filepath.Glob(chart + "/examples/" + name + "*.yaml")
		if err != nil || len(some) == 0 {
			t.Fatalf("examples of %s: %q, %v", name, some, err)
		}
		examples = append(examples, some...)
	}
	one := chart + "/examples/openstack.yaml"
	everything := "controller.controllers={*,-route},controller.clusterName=blue,controller.securePort=10268,webhooks.names={*,-service-load-balancer},webhooks.port=10270," +
		"webhooks.failurePolicy=Ignore\\,persistentvolume-label=Fail,webhooks.url=https://127.0.0.1:10270,webhooks.certificate.source=cert-manager," +
		"webhooks.certificate.secretName=other,webhooks.certificate.issuer=ClusterIssuer/ca,webhooks.certificate.injectCA=true,webhooks.clientCAConfigMap=ca,logLevel=4"
	for name, args := range map[string][]string{
		"everything": {"--values", one, "--set", everything},
		"apart":      {"--values", one, "--set", everything + ",webhooks.deployment.enabled=true,webhooks.deployment.securePort=10278"},
	} {
		t.Run(name, func(t *testing.T) { checkArgs(t, render(t, args...)) })
	}
	for _, file := range examples {
		t.Run(filepath.Base(file), func(t *testing.T) { checkArgs(t, render(t, "--values", file)) })
	}
}

// render returns what helm makes of the chart outside of kube-system.
func render(t *testing.T, args ...string) string {
	t.Helper()
	// The go command takes notice of which files a test reads.
	for _, pattern := range []string{"/*", "/templates/*", "/examples/*"} {
		files, err := filepath.Glob(chart + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			_, _ = os.ReadFile(file) // some are folders
		}
	}
	cmd := exec.CommandContext(t.Context(), controlplane.Tool(t, "helm"), append([]string{"template", "isthmus", chart, "--namespace", "elsewhere"}, args...)...) //nolint:gosec // our own chart
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// checkArgs takes the arguments of all containers as the binary does.
func checkArgs(t *testing.T, rendered string) {
	t.Helper()
	n := 0
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		pod := o.Spec.Template.Spec
		if o.Kind == "ConfigMap" {
			var static corev1.Pod
			for _, manifest := range o.Data {
				if err := yaml.Unmarshal([]byte(manifest), &static); err != nil {
					t.Fatal(err)
				}
			}
			pod = static.Spec
		}
		for _, c := range pod.Containers {
			n++
			if err := refusal(t, c.Args, true); err != nil {
				t.Errorf("%v: %q", err, c.Args)
			}
		}
	}
	if n == 0 {
		t.Error("no container: this test checks nothing")
	}
}

// The chart's schema knows the clouds that are built in.
func TestCloudsInChart(t *testing.T) {
	data, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Cloud struct {
				Properties struct{ Provider struct{ Enum []string } }
			}
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	want := append([]string{""}, slices.Sorted(maps.Keys(providers.All()))...)
	if got := schema.Properties.Cloud.Properties.Provider.Enum; !slices.Equal(got, want) {
		t.Errorf("cloud.provider may be %q, want %q", got, want)
	}
}
