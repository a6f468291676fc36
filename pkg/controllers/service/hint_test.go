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

// What is known of a load balancer that is not done yet is published at once; and that it comes back
// with the Service makes no attempt of its own.
func TestWhatIsKnownOfUnfinishedWorkIsPublished(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		status := statusOf(spec)
		status.Ingress, status.Warnings = nil, []string{"a half wish"}
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

// An address that serves is published while the cloud still works on the rest, in one write. Looks that
// say the same, or nothing of it, write nothing; nor does the end.
func TestAddressIsPublishedWhileTheCloudStillWorks(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	var status *cloud.LoadBalancerStatus
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		return status, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 5 * time.Second, Progress: true, Err: errors.New("the pools are left")}
	}
	spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Name: "web"}}
	turned := statusOf(spec)
	turned.Ingress[0], turned.Ingress[1] = turned.Ingress[1], turned.Ingress[0]
	known := statusOf(spec)
	known.Ingress = nil
	other := statusOf(spec)
	other.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	for _, look := range []struct {
		does    string
		status  *cloud.LoadBalancerStatus
		patches int
		ingress string
	}{
		{"finds no address", known, 2, ""}, // the finalizer and the ID
		{"finds addresses", statusOf(spec), 1, "192.0.2.1"},
		{"finds the same", statusOf(spec), 0, "192.0.2.1"},
		{"finds the same in another order", turned, 0, "192.0.2.1"},
		{"says nothing", nil, 0, "192.0.2.1"},
		{"says nothing of addresses", known, 0, "192.0.2.1"},
		{"finds another one", other, 1, "192.0.2.2"},
		{"finds the first again", statusOf(spec), 1, "192.0.2.1"},
	} {
		status = look.status
		again := w.sync("web")
		w.wantCalls("ensure web uid web-1 [n1]")
		w.sync("web") // by our own write
		w.wantCalls()
		if w.patches != look.patches {
			t.Errorf("a look that %s makes %d writes, want %d", look.does, w.patches, look.patches)
		}
		w.patches = 0
		ingress := w.stored("web").Status.LoadBalancer.Ingress
		if got := append(ingress, corev1.LoadBalancerIngress{})[0].IP; got != look.ingress {
			t.Errorf("a look that %s leaves %v, want %s", look.does, ingress, look.ingress)
		}
		w.clock.Step(again)
	}
	w.events()
	w.cloud.ensure = nil
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
	w.wantPatches(0)
	w.wantEvents("Normal EnsuredLoadBalancer")
}

// What goes wrong after the address was published takes it away from nobody.
func TestPublishedAddressStaysWhenTheRestFails(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	err := error(&cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: time.Second, Err: errors.New("the pools are left")})
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		return statusOf(spec), err
	}
	w.clock.Step(w.sync("web"))
	w.wantPatches(2)
	for _, kind := range []cloud.Kind{cloud.KindQuota, cloud.KindUnavailable, cloud.KindInvalid} {
		err = cloud.Errorf(kind, "no")
		w.cloud.set(func() {
			w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) { return nil, err }
		})
		w.clock.Step(w.sync("web"))
	}
	w.wantPatches(0)
	if s := w.stored("web"); len(s.Status.LoadBalancer.Ingress) != 2 {
		t.Errorf("published is %v", s.Status.LoadBalancer.Ingress)
	}
}
