package service

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// What somebody has to mend in the cloud is told at once, with cause and next step, and is no reason
// to ask the cloud every few seconds; a Service that changes is tried at once.
func TestQuotaAndFailureAreToldAtOnceAndRetriedSeldom(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindQuota, cloud.KindFailed} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			w.setNodes(node("n1", nil))
			w.create(service("web", nil))
			w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
				return nil, cloud.Errorf(kind, "10 of 10 load balancers are used; raise the quota")
			}
			for range 6 {
				again := w.sync("web")
				if again < seldomRetry/2 || again > seldomRetry {
					t.Errorf("tried again after %s, want between %s and %s", again, seldomRetry/2, seldomRetry)
				}
				w.wantCalls("ensure web uid web-1 [n1]")
				w.clock.Step(again - time.Second)
				w.sync("web")
				w.wantCalls()
				w.clock.Step(time.Second)
			}
			warnings := 0
			for _, e := range w.events() {
				if strings.HasPrefix(e, "Warning SyncLoadBalancerFailed") && strings.Contains(e, "are used; raise the quota; tried again every few minutes") {
					warnings++
				}
			}
			if warnings < 2 || warnings > 4 {
				t.Errorf("%d warnings in at least half an hour", warnings)
			}
			w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1]")
		})
	}
}

// What has changed meanwhile is read again soon and silently; what always changes is a failure.
func TestStaleIsReadAgain(t *testing.T) {
	w := settled(t, nil)
	stale := 0
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		if stale > 0 {
			stale--
			return nil, cloud.Errorf(cloud.KindStale, "changed by somebody else")
		}
		return statusOf(spec), nil
	}
	stale = staleTries
	w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	for range staleTries {
		again := w.sync("web")
		if again != firstRetry {
			t.Fatalf("looked at again after %s, want %s", again, firstRetry)
		}
		w.clock.Step(again)
	}
	w.sync("web")
	w.wantEvents("Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")

	stale = 100
	w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 82 })
	for range staleTries + 1 {
		w.clock.Step(w.sync("web"))
	}
	w.wantEvents("Normal EnsuringLoadBalancer", "Warning SyncLoadBalancerFailed")
}
