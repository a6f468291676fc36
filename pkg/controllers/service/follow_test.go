package service

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// frozen makes the fake tell frozen updates from others.
func (w *world) frozen() {
	w.cloud.set(func() {
		w.cloud.update = func(_ context.Context, spec *cloud.LoadBalancerSpec) error {
			if !spec.Frozen {
				return errors.New("the spec is not frozen")
			}
			return nil
		}
	})
}

// TestMembersFollowWhenWishBecomesInvalid: what was served before is always kept up with the Nodes,
// also by a controller that has just started.
func TestMembersFollowWhenWishBecomesInvalid(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.sync("web")
	w.cloud.take()
	w.frozen()
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5000" })
	w.sync("web")
	w.wantCalls("update web [n1]")
	w.sync("web")
	w.wantCalls()
	w.setNodes(node("n1", nil), node("n2", nil))
	w.sync("web")
	w.wantCalls("update web [n1 n2]")
	w.change("web", func(s *corev1.Service) { delete(s.Annotations, "lb.example.org/timeout") })
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1 n2]")
}

// TestMembersFollowWhenCloudRefuses: the same for what only the cloud knows to be wrong, at once
// and not when the cloud is asked again.
func TestMembersFollowWhenCloudRefuses(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindQuota, cloud.KindFailed} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			w.setNodes(node("n1", nil))
			w.create(service("web", nil))
			w.sync("web")
			w.cloud.take()
			w.frozen()
			w.cloud.set(func() {
				w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
					return nil, cloud.Errorf(kind, "not so")
				}
			})
			w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5" })
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1]", "update web [n1]")
			w.setNodes(node("n2", nil))
			w.sync("web")
			calls := w.cloud.take()
			if len(calls) == 0 || calls[len(calls)-1] != "update web [n2]" {
				t.Errorf("calls %q, the last is to be the members'", calls)
			}
		})
	}
}

// TestMembersFollowSoonAfterAnOutage: what is wrong with the wish is tried again seldom, but not the members that an outage has kept from
// it.
func TestMembersFollowSoonAfterAnOutage(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.sync("web")
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5000" })
	w.sync("web")
	w.cloud.take()
	w.cloud.set(func() {
		w.cloud.update = func(context.Context, *cloud.LoadBalancerSpec) error {
			return cloud.Errorf(cloud.KindUnavailable, "an outage")
		}
	})
	w.setNodes(node("n2", nil))
	for range 2 {
		again := w.sync("web")
		w.wantCalls("update web [n2]")
		if again <= 0 || again > 2*firstRetry {
			t.Errorf("looked at again after %s", again)
		}
		w.clock.Step(again)
	}
	w.frozen()
	if again := w.sync("web"); again <= lastRetry {
		t.Errorf("when nothing is to be done it is looked at again after %s", again)
	}
	w.wantCalls("update web [n2]")
	w.sync("web")
	w.wantCalls()
}

// TestMembersAreLeftAloneWhenServiceWasNeverServed: with a wish that is not valid.
func TestMembersAreLeftAloneWhenServiceWasNeverServed(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5000" }))
	w.sync("web")
	w.wantCalls()
}

// TestNodesThatGoAreTakenOutWhenSelectorIsInvalid: which Nodes it is to select nobody knows, but
// those that are none any more: each change of Nodes is passed on.
func TestNodesThatGoAreTakenOutWhenSelectorIsInvalid(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil), node("n2", nil))
	w.create(service("web", nil))
	w.sync("web")
	w.cloud.take()
	w.cloud.set(func() {
		w.cloud.update = func(_ context.Context, spec *cloud.LoadBalancerSpec) error {
			if !spec.Frozen || len(spec.Members) > 0 || len(spec.Candidates) == 0 {
				t.Errorf("spec %+v, want a frozen one with candidates only", spec)
			}
			return nil
		}
	})
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/nodes"] = "a in" })
	w.sync("web")
	w.wantCalls("update web []")
	w.setNodes(node("n2", nil))
	if got := w.nodePass(); !slices.Equal(got, []string{"default/web"}) {
		t.Errorf("it concerns %v", got)
	}
	w.sync("web")
	w.wantCalls("update web []")
	w.sync("web")
	w.wantCalls()
}
