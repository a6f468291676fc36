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

func wants(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

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
	return c.patch(ctx, e, service, func(s *corev1.Service) { s.Finalizers = c.finalizersOf(s) })
}

// release makes a Service nobody's. Where others serve it, its status is theirs: the API server wipes it with the class, and what the
// Service shows of a load balancer that others replace is for them to replace.
func (c *Controller) release(ctx context.Context, e *entry, service *corev1.Service) error {
	_, err := c.patch(ctx, e, service, func(s *corev1.Service) {
		if !c.isOthers(s) {
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		}
		s.Finalizers = c.released(s)
	})
	return err
}

// publish makes the Service show status, and that it is ours.
func (c *Controller) publish(ctx context.Context, e *entry, service *corev1.Service, status *cloud.LoadBalancerStatus) (*corev1.Service, error) {
	return c.patch(ctx, e, service, func(s *corev1.Service) {
		s.Finalizers = c.finalizersOf(s)
		if !hasAnnotations(s, status.Annotations) {
			s.Annotations = overlay(s.Annotations, status.Annotations)
		}
		if !sameIngress(s.Status.LoadBalancer.Ingress, status.Ingress) {
			s.Status.LoadBalancer.Ingress = status.Ingress
		}
	})
}

// isPublished reports whether publish has nothing to write.
func (c *Controller) isPublished(s *corev1.Service, status *cloud.LoadBalancerStatus) bool {
	return slices.Equal(s.Finalizers, c.finalizersOf(s)) &&
		hasAnnotations(s, status.Annotations) && sameIngress(s.Status.LoadBalancer.Ingress, status.Ingress)
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

// sameIngress compares addresses in any order.
func sameIngress(a, b []corev1.LoadBalancerIngress) bool {
	if len(a) != len(b) {
		return false
	}
	rest := slices.Clone(b)
	for _, in := range a {
		i := slices.IndexFunc(rest, func(x corev1.LoadBalancerIngress) bool { return equality.Semantic.DeepEqual(in, x) })
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return true
}

// finalizer keeps a Service without a load balancer class until its load balancer is gone.
// It is the framework's. For a Service with a class, the class itself is the finalizer: it
// tells whose the Service is after the API server has wiped the class, as it does when the
// type changes; and the framework, which takes its own finalizer off Services with a class,
// too, leaves it alone.
const finalizer = "service.kubernetes.io/load-balancer-cleanup"

// finalizerFor is the finalizer of Services of a class, nil for none.
func finalizerFor(class *string) string {
	if class == nil {
		return finalizer
	}
	return *class
}

// claimedFor returns the class, empty for none, that a finalizer of ours tells of.
func (c *Controller) claimedFor(f string) (class string, ours bool) {
	if f == finalizer {
		return "", c.Classes.Default
	}
	_, served := c.Classes.Find(f)
	return f, served
}

// finalizersOf returns the finalizers that a Service we serve shall have: of ours only that
// of its class.
func (c *Controller) finalizersOf(s *corev1.Service) []string {
	want := finalizerFor(s.Spec.LoadBalancerClass)
	set, existing := c.existing(s)
	out := slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		_, ours := c.claimedFor(f)
		return ours && f != want || slices.Contains(existing, f) && !slices.Contains(set, f)
	})
	for _, f := range append([]string{want}, set...) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// released returns the finalizers that a Service shall have when nothing of ours is left.
// Where others serve it by now, what may be theirs stays for them to let go of: the finalizers of the existing manager, which may
// run for a class that we do not serve, and the framework's while the Service lives. Once that goes, the framework takes its own
// off Services of any class and type, and so do we: a Service that others serve may have it of us, or of an existing manager that
// puts it on all.
func (c *Controller) released(s *corev1.Service) []string {
	others := c.isOthers(s)
	_, existing := c.existing(s)
	return slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		switch _, ours := c.claimedFor(f); {
		case slices.Contains(existing, f):
			return !others
		case f == finalizer:
			return ours && (!others || s.DeletionTimestamp != nil)
		default:
			return ours
		}
	})
}

// isOthers reports whether others serve a Service.
func (c *Controller) isOthers(s *corev1.Service) bool { return wants(s) && !c.serves(s) }

// isClaimed reports whether a Service has a finalizer that is ours to take off now.
func (c *Controller) isClaimed(s *corev1.Service) bool {
	_, existing := c.existing(s)
	return slices.ContainsFunc(s.Finalizers, func(f string) bool {
		switch _, ours := c.claimedFor(f); {
		case slices.Contains(existing, f):
			return c.serves(s)
		case f == finalizer:
			return ours && (!c.isOthers(s) || s.DeletionTimestamp != nil)
		default:
			return ours
		}
	})
}

// stranded returns the finalizer of a class that the configuration had when the Service got
// it and has no longer, "" for none. Whose load balancer that is cannot be told any more:
// another Isthmus with another configuration may serve the class.
func (c *Controller) stranded(s *corev1.Service) string {
	i := slices.IndexFunc(s.Finalizers, func(f string) bool { return c.Classes.Misspelled(f) })
	if i < 0 {
		return ""
	}
	return s.Finalizers[i]
}

// classChanged reports whether we have made the Service's load balancer for another class
// than its class now. The finalizer tells, also while the class is wiped; one of the class now, beside
// others, says that the load balancer is of that.
func (c *Controller) classChanged(e *entry, s *corev1.Service) bool {
	now, claimed := value(s.Spec.LoadBalancerClass), false
	for _, f := range s.Finalizers {
		before, ours := c.claimedFor(f)
		if ours && before == now {
			return false
		}
		claimed = claimed || ours
	}
	return claimed || e.made && value(e.service.Spec.LoadBalancerClass) != now
}

// existing are the finalizers that the cloud's existing manager has on a Service: those that it is to
// have with ours, and all.
func (c *Controller) existing(s *corev1.Service) (set, all []string) {
	if c.Provider.LoadBalancing.Finalizers == nil {
		return nil, nil
	}
	return c.Provider.LoadBalancing.Finalizers(c.hint(s))
}

// hint is what a Service says of its load balancer.
func (c *Controller) hint(s *corev1.Service) *cloud.LoadBalancerSpec {
	return lb.Hint(s, c.classOf(s), c.Cluster, c.Provider)
}

// classOf is the LoadBalancerSpec.Class that the Service's load balancer was made with: that of its
// finalizer where the API server has wiped the class.
func (c *Controller) classOf(s *corev1.Service) string {
	for _, f := range s.Finalizers {
		if class, ours := c.claimedFor(f); ours {
			name, _ := c.Classes.Find(class)
			return name
		}
	}
	class, _ := c.Classes.Of(s)
	return class
}

func (c *Controller) serves(s *corev1.Service) bool {
	_, served := c.Classes.Of(s)
	return served
}

// value is what s points to, empty for nil.
func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
