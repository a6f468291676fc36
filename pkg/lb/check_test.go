package lb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// TestUnknownAnnotations: what was meant for this cloud is told apart from what is others'.
func TestUnknownAnnotations(t *testing.T) {
	vocabulary := append(testVocabulary(), cloud.Annotation{Name: "service.beta.kubernetes.io/example-internal-load-balancer", Type: cloud.TypeBool})
	const internal, ranges = "service.beta.kubernetes.io/example-internal-load-balancer", corev1.AnnotationLoadBalancerSourceRangesKey
	for name, near := range map[string]string{
		"lb.example.org/flavro-id":           "lb.example.org/flavor-id",
		"lb.example.org/flavorID":            "lb.example.org/flavor-id",
		"lb.example.org/something-different": "-",
		// The shared prefix, with this cloud's mark or by a typo.
		"service.beta.kubernetes.io/example-internal-loadbalancer":  internal,
		"service.beta.kubernetes.io/exampl-internal-load-balancer":  internal,
		"service.beta.kubernetes.io/example-quite-another-thing-we": "-",
		"service.beta.kubernetes.io/load-balancer-source-range":     ranges,
		"service.beta.kubernets.io/load-balancer-source-ranges":     ranges,
		// A typo in our own prefix.
		"lb.exampl.org/flavor-id": "lb.example.org/flavor-id",
		// Others'.
		"service.beta.kubernetes.io/aws-load-balancer-source-ranges":     "",
		"service.beta.kubernetes.io/azure-load-balancer-internal":        "",
		"service.beta.kubernetes.io/load-balancer-something":             "",
		"service.kubernetes.io/topology-mode":                            "",
		"networking.example.com/flavor-id":                               "",
		"kubectl.kubernetes.io/last-applied-configuration":               "",
		"cloud.google.com/load-balancer-type":                            "",
		"service.beta.kubernetes.io/other-internal-load-balancer-subnet": "",
		"flavor-id": "",
	} {
		var want []string
		switch near {
		case "":
		case "-":
			want = []string{"annotation " + name + " is not known and has no effect"}
		default:
			want = []string{"annotation " + name + " is not known and has no effect; did you mean " + near + "?"}
		}
		_, problems, got := Check(map[string]string{name: "1"}, vocabulary)
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: %v, warnings (-want +got):\n%s", name, problems, diff)
		}
	}
}

// TestManyUnknownAnnotations: a Service cannot make many warnings, nor much work.
func TestManyUnknownAnnotations(t *testing.T) {
	annotations := map[string]string{}
	for i := range 5_000 {
		annotations[fmt.Sprintf("lb.example.org/flavor-%d", i)] = ""
	}
	annotations["lb.example.org/method"] = "maybe"
	if _, problems, warnings := Check(annotations, testVocabulary()); len(warnings) != mostStrangers || len(problems) != 1 {
		t.Errorf("%d warnings, problems %v", len(warnings), problems)
	}
}

// TestLongValues: a message repeats only the beginning of a value.
func TestLongValues(t *testing.T) {
	_, problems, _ := Check(map[string]string{"lb.example.org/subnet": "a", "lb.example.org/flavor-id": strings.Repeat("ä", 10_000)}, testVocabulary())
	if len(problems) != 1 || len(problems[0].Error()) > 600 {
		t.Errorf("%.1000v", problems)
	}
}

// TestReview: what is wrong by itself is named together with what the provider refuses, and
// the provider is not asked about what it cannot be asked about.
func TestReview(t *testing.T) {
	var asked *cloud.LoadBalancerSpec
	provider := &cloud.Provider{Annotations: testVocabulary(), CheckLoadBalancer: func(spec *cloud.LoadBalancerSpec) (field.ErrorList, []string) {
		asked = spec
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "loadBalancerIP"), "not here")}, []string{"slow"}
	}}
	service := testService(func(s *corev1.Service) {
		s.Annotations["lb.example.org/flavor-id"] = "maybe"
		s.Annotations["lb.example.org/method"] = "A"
		s.Annotations["lb.example.org/kep"] = "true"
	})
	before := service.DeepCopy()
	problems, warnings := Review(service, "gold", provider)
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	if diff := cmp.Diff([]string{`metadata.annotations[lb.example.org/flavor-id]: Invalid value: "maybe": use an ID of the form 01234567-89ab-cdef-0123-456789abcdef`, "spec.loadBalancerIP: Forbidden: not here"}, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"annotation lb.example.org/kep is not known and has no effect; did you mean lb.example.org/keep?", "slow"}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if asked.Class != "gold" || len(asked.Ports) != 2 || asked.Settings.Has("lb.example.org/flavor-id") || asked.Settings.String("lb.example.org/method", "") != "A" {
		t.Errorf("the provider was asked about %+v", asked)
	}
	if diff := cmp.Diff(before, service); diff != "" {
		t.Errorf("Review changed the Service:\n%s", diff)
	}

	asked = nil
	if problems, _ := Review(testService(func(s *corev1.Service) { s.Spec.Ports = nil }), "", provider); len(problems) != 1 || asked != nil {
		t.Errorf("without ports: %v; the provider was asked about %+v", problems, asked)
	}
	provider.CheckLoadBalancer = nil
	if problems, _ := Review(service, "", provider); len(problems) != 1 {
		t.Errorf("without a provider's check: %v", problems)
	}
}
