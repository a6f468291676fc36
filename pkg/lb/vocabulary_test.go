package lb

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Values of each type, names with a port in them, aliases and what a provider parses itself.
func TestVocabularyOfOtherClouds(t *testing.T) {
	vocabulary := []cloud.Annotation{
		{Name: "lb.example.org/drain", Type: cloud.TypeDuration},
		{Name: "lb.example.org/tags", Type: cloud.TypePairs, Aliases: []string{"old.example.org/tags", "older.example.org/tags"}},
		{Name: "lb.example.org/tls-ports", Type: cloud.TypePorts},
		{Name: "lb.example.org/groups", Type: cloud.TypeList},
		{Name: "lb.example.org/port_{port}_probe", Type: cloud.TypeInt, Min: 5, Max: 10},
		{Name: "lb.example.org/port_{port}_path", Type: cloud.TypeString, RefuseNew: true, Parse: func(s string) error {
			if strings.HasPrefix(s, "/") {
				return nil
			}
			return errors.New("use a path that begins with /")
		}},
	}
	for _, tt := range []struct {
		name, value, key string // key "" is refused
		says             string
	}{
		{"drain", "1m30s", "drain", ""}, {"drain", "", "drain", ""}, {"drain", "90", "", "use a duration such as 30s"}, {"drain", "-1s", "", "use a duration"},
		{"tags", "team=web, stage=", "tags", ""}, {"tags", "team", "", "use a comma-separated list such as team=web"}, {"tags", "=x", "", "use a comma-separated list"},
		{"tls-ports", "443, https", "tls-ports", ""}, {"tls-ports", "*", "tls-ports", ""}, {"tls-ports", "443,70000", "", "by number or name"}, {"tls-ports", "44 3", "", "by number or name"},
		{"groups", "a, b", "groups", ""},
		{"port_443_probe", "7", "port_443_probe", ""}, {"port_443_probe", "70", "", "between 5 and 10"},
		{"port_80_path", "/healthz", "port_80_path", ""}, {"port_80_path", "healthz", "", "use a path that begins with /"},
		{"port_0_path", "/", "", "is not known"}, {"port_080_path", "/", "", "is not known"}, {"port_{port}_path", "/", "", "is not known"}, {"port_99999_path", "/", "", "is not known"},
	} {
		name := "lb.example.org/" + tt.name
		settings, problems, warnings := Check(map[string]string{name: tt.value}, vocabulary)
		text := strings.Join(warnings, "\n")
		for _, p := range problems {
			text += p.Error()
		}
		want := cloud.Settings{}
		if tt.key != "" {
			want["lb.example.org/"+tt.key] = tt.value
		}
		if diff := cmp.Diff(want, settings); diff != "" || !strings.Contains(text, tt.says) || tt.says == "" && text != "" || tt.says != "" && !strings.Contains(text, name) {
			t.Errorf("%s=%q: %q (-want +got)\n%s", tt.name, tt.value, text, diff)
		}
	}
	settings, problems, warnings := Check(map[string]string{"older.example.org/tags": "a=1", "old.example.org/tags": "b=2"}, vocabulary)
	if diff := cmp.Diff(cloud.Settings{"lb.example.org/tags": "b=2"}, settings); diff != "" || len(problems) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "older.example.org/tags has no effect") {
		t.Errorf("aliases: %v, %q (-want +got)\n%s", problems, warnings, diff)
	}

	// For a Service that was served before, what would be refused of a new one stays in the settings.
	service := testService(func(s *corev1.Service) {
		s.Annotations = map[string]string{"lb.example.org/port_80_path": "healthz"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	})
	spec, warnings, err := Plan(service, nil, testCluster, &cloud.Provider{Annotations: vocabulary})
	if err != nil || spec.Settings["lb.example.org/port_80_path"] != "healthz" || len(warnings) != 1 {
		t.Errorf("a served Service: %v, %q, %v", spec.Settings, warnings, err)
	}
	service.Annotations = map[string]string{"old/nodes": "a=b"}
	selector, err := Selector(service, []cloud.Annotation{{Name: "new/nodes", Aliases: []string{"old/nodes"}, Type: cloud.TypeSelector}})
	if err != nil || selector.Matches(labels.Set{}) || !selector.Matches(labels.Set{"a": "b"}) {
		t.Errorf("a selector by its alias: %v, %v", selector, err)
	}
}
