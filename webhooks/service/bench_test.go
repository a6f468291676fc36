package service_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// BenchmarkHandle is what the webhook adds to a change of a Service, without the way there.
func BenchmarkHandle(b *testing.B) {
	handler := service.New(environment(b, ""))
	annotated := func(s *corev1.Service) {
		s.Annotations = map[string]string{internal: "true", prefix + "connection-limit": "100", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
	}
	req := request(b, example(annotated), example(func(s *corev1.Service) { annotated(s); s.Spec.Ports[0].Port = 81 }))
	b.ReportAllocs()
	for b.Loop() {
		if resp := handler.Handle(b.Context(), req); !resp.Allowed {
			b.Fatal(resp.Result)
		}
	}
}
