package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// patch writes what change changes of the Service's metadata and status, and nothing when
// that is nothing. It goes to the status subresource: no right to change Services is needed.
// A Service of the same name that was made anew meanwhile is not written.
func (c *Controller) patch(ctx context.Context, e *entry, service *corev1.Service, change func(*corev1.Service)) (*corev1.Service, error) {
	changed := service.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(service, changed) {
		return service, nil
	}
	data, err := patchOf(service, changed)
	if err != nil {
		return nil, fmt.Errorf("patch of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	out, err := c.Client.Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("write to Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	e.latest = out
	if len(service.Status.LoadBalancer.Ingress) == 0 && len(changed.Status.LoadBalancer.Ingress) > 0 {
		since := service.CreationTimestamp.Time
		if asked := e.asked.Load(); asked != nil {
			since = *asked
		}
		c.Metrics.addressDelay.Observe(max(c.Clock.Since(since).Seconds(), 0)) // the API server's clock may be ahead
	}
	return out, nil
}

func patchOf(before, after *corev1.Service) ([]byte, error) {
	b, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	a, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(b, a, corev1.Service{})
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"] = before.UID // the API server refuses to write it to another object
	fields["metadata"] = metadata
	return json.Marshal(fields)
}

// newest returns the later one of two states of a Service; written may be nil. The informer
// may be behind our own writes.
func newest(read, written *corev1.Service) *corev1.Service {
	if written == nil || read.UID != written.UID {
		return read
	}
	if c, err := resourceversion.CompareResourceVersion(read.ResourceVersion, written.ResourceVersion); err != nil || c >= 0 {
		return read
	}
	return written
}

// claim makes a Service ours before anything is made for it.
func (c *Controller) claim(ctx context.Context, e *entry, service *corev1.Service) (*corev1.Service, error) {
	return c.patch(ctx, e, service, func(s *corev1.Service) { s.Finalizers = c.claims.Finalizers(s) })
}

// release makes a Service nobody's. Where others serve it, its status is theirs: the API server wipes it with the class, and what the
// Service shows of a load balancer that others replace is for them to replace.
func (c *Controller) release(ctx context.Context, e *entry, service *corev1.Service) error {
	_, err := c.patch(ctx, e, service, func(s *corev1.Service) {
		if !c.claims.AreOthers(s) {
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		}
		s.Finalizers = c.claims.Released(s)
	})
	return err
}

// publish makes the Service show status, and that it is ours.
func (c *Controller) publish(ctx context.Context, e *entry, service *corev1.Service, status *cloud.LoadBalancerStatus) (*corev1.Service, error) {
	return c.patch(ctx, e, service, func(s *corev1.Service) {
		s.Finalizers = c.claims.Finalizers(s)
		if !hasAnnotations(s, status.Annotations) {
			s.Annotations = overlay(s.Annotations, status.Annotations)
		}
		if !lb.SameIngress(s.Status.LoadBalancer.Ingress, status.Ingress) {
			s.Status.LoadBalancer.Ingress = status.Ingress
		}
	})
}

// isPublished reports whether publish has nothing to write.
func (c *Controller) isPublished(s *corev1.Service, status *cloud.LoadBalancerStatus) bool {
	return slices.Equal(s.Finalizers, c.claims.Finalizers(s)) &&
		hasAnnotations(s, status.Annotations) && lb.SameIngress(s.Status.LoadBalancer.Ingress, status.Ingress)
}

// hasAnnotations reports whether the Service's annotations are as want says, where an empty
// value means none.
func hasAnnotations(s *corev1.Service, want map[string]string) bool {
	for name, text := range want {
		if got, ok := s.Annotations[name]; got != text || text == "" && ok {
			return false
		}
	}
	return true
}
