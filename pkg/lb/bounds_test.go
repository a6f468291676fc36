package lb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Integers are taken at their bounds, and not beyond.
func TestBoundsOfIntegers(t *testing.T) {
	bounded, unbounded := cloud.Annotation{Name: "bounded", Type: cloud.TypeInt, Min: -1, Max: 10}, cloud.Annotation{Name: "unbounded", Type: cloud.TypeInt}
	for value, wrong := range map[string][2]bool{
		"-2": {true, false}, "-1": {}, "0": {}, "10": {}, "11": {true, false}, "2147483647": {true, false}, "2147483648": {true, true},
		"1e1": {true, true}, "": {true, true}, " 1": {true, true}, "99999999999999999999": {true, true},
	} {
		settings, problems, warnings := Check(map[string]string{"bounded": value, "unbounded": value}, []cloud.Annotation{bounded, unbounded})
		if got := [2]bool{!settings.Has("bounded"), !settings.Has("unbounded")}; got != wrong || len(problems) > 0 {
			t.Errorf("%q: wrong as %v, want %v; %v", value, got, wrong, problems)
		}
		text := strings.Join(warnings, "\n")
		if strings.Contains(text, "use an integer between -1 and 10;") != wrong[0] || strings.Contains(text, "use an integer;") != wrong[1] {
			t.Errorf("%q: %q", value, text)
		}
	}
}

// What nobody has validated is bounded before anything is made of it.
func TestReviewIsBounded(t *testing.T) {
	review := func(change func(*corev1.Service)) (problems []string) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}}}
		change(s)
		errs, _ := Review(s, "", &cloud.Provider{Annotations: testVocabulary(), CheckLoadBalancer: nil})
		for _, err := range errs {
			problems = append(problems, err.Error())
		}
		return problems
	}
	if diff := cmp.Diff([]string{"spec.ports: Too many: 1001: must have at most 1000 items"}, review(func(s *corev1.Service) {
		s.Spec.Ports = make([]corev1.ServicePort, 1001)
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].Port = int32(i + 1) //nolint:gosec // a port
		}
		s.Spec.Ports[1000].Port = 0
	})); diff != "" {
		t.Errorf("1001 ports (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"metadata.annotations: Too long: may not be more than 262144 bytes"}, review(func(s *corev1.Service) {
		s.Annotations["lb.example.org/flavor-id"] = strings.Repeat("x", 256<<10)
	})); diff != "" {
		t.Errorf("long annotations (-want +got):\n%s", diff)
	}
	if n := len(review(func(s *corev1.Service) {
		for i := range 5000 {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprint(i))
		}
	})); n != maxProblems {
		t.Errorf("%d problems, want %d", n, maxProblems)
	}
}
