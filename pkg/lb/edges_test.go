package lb

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// A bound of zero is a bound where the other one is not.
func TestBoundOfZeroIsABound(t *testing.T) {
	vocabulary := []cloud.Annotation{{Name: "most", Type: cloud.TypeInt, Max: 10}, {Name: "least", Type: cloud.TypeInt, Min: -10}}
	for _, tt := range []struct {
		name, value, want string
	}{
		{"most", "0", ""}, {"most", "10", ""},
		{"most", "11", "between 0 and 10"}, {"most", "-1", "between 0 and 10"},
		{"least", "-10", ""}, {"least", "0", ""},
		{"least", "1", "between -10 and 0"}, {"least", "-11", "between -10 and 0"},
	} {
		settings, _, warnings := Check(map[string]string{tt.name: tt.value}, vocabulary)
		text := strings.Join(warnings, "\n")
		if settings.Has(tt.name) != (tt.want == "") || !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%s: %s: set %t, warnings %q, want %q", tt.name, tt.value, settings.Has(tt.name), text, tt.want)
		}
	}
}

// Names of others make no warnings, but looking at each costs: after mostStrangersLookedAt no other one is.
func TestUnknownAnnotationsAreNotLookedAtWhenThereAreMany(t *testing.T) {
	for others, want := range map[int]int{mostStrangersLookedAt - 1: 1, mostStrangersLookedAt: 0} {
		annotations := map[string]string{"lb.example.org/flavrO-id": ""}
		for i := range others {
			annotations[fmt.Sprintf("a.example.com/%d", i)] = ""
		}
		if _, _, warnings := Check(annotations, testVocabulary()); len(warnings) != want {
			t.Errorf("behind %d of others': %d warnings, want %d", others, len(warnings), want)
		}
	}
}

// Each port that there is may be the health check's.
func TestHealthCheckNodePort(t *testing.T) {
	for port, want := range map[int32]bool{-1: false, 0: false, 1: true, 65535: true, 65536: false} {
		service := testService(func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, port
		})
		spec, warnings, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(warnings, "\n"), "spec.healthCheckNodePort is not set")
		if got := spec.HealthCheck != nil && spec.HealthCheck.Port == port; got != want || said == want {
			t.Errorf("port %d: health check %+v, warned %t", port, spec.HealthCheck, said)
		}
	}
}
