package service

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// A deletion says what the Service says by now, also where that is not valid any more: names of some
// clouds' objects are made of it.
func TestDeletionHasTheServiceAsAHint(t *testing.T) {
	w := settled(t, nil)
	w.change("web", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053})
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Annotations["lb.example.org/timeout"] = "soon"
	})
	var hint *cloud.LoadBalancerSpec
	w.cloud.remove = func(_ context.Context, spec *cloud.LoadBalancerSpec) error {
		hint = spec
		return nil
	}
	w.delete("web")
	w.sync("web")
	if hint == nil || len(hint.Ports) != 2 || hint.Ports[1].Protocol != corev1.ProtocolUDP || hint.SessionAffinityTimeout != 3*time.Hour ||
		hint.Settings["lb.example.org/id"] != "id-of-web" || hint.Settings.Has("lb.example.org/timeout") || len(hint.Members) > 0 {
		t.Errorf("the hint is %+v", hint)
	}
}

// What is known of a load balancer that is not done yet is published at once, but no address is; and
// that it comes back with the Service makes no attempt of its own.
func TestWhatIsKnownOfUnfinishedWorkIsPublished(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		status := statusOf(spec)
		status.Warnings = []string{"a half wish"}
		return status, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 7 * time.Second, Err: errors.New("PENDING_CREATE")}
	}
	if again := w.sync("web"); again != 7*time.Second {
		t.Errorf("looked at again after %s, want 7s", again)
	}
	w.wantPatches(2)
	if s := w.stored("web"); s.Annotations["lb.example.org/id"] != "id-of-web" || len(s.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("published are %v and %v", s.Annotations, s.Status.LoadBalancer.Ingress)
	}
	w.wantCalls("ensure web uid web-1 [n1]")
	for range 3 {
		w.sync("web")
	}
	w.wantCalls()
	w.clock.Step(7 * time.Second)
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
	w.wantPatches(0)
	w.wantEvents("Normal EnsuringLoadBalancer", "Warning LoadBalancerWarning a half wish", "Normal EnsuringLoadBalancer The cloud is not done yet")

	w.cloud.ensure = nil
	w.clock.Step(10 * time.Second)
	w.sync("web")
	w.wantEvents("Normal EnsuredLoadBalancer")
	if s := w.stored("web"); len(s.Status.LoadBalancer.Ingress) != 2 {
		t.Errorf("published is %v", s.Status.LoadBalancer.Ingress)
	}
}
