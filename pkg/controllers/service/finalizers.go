package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

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
// What may belong to the controller of the class that the Service has by now stays.
func (c *Controller) released(s *corev1.Service) []string {
	others := wants(s) && !c.serves(s)
	_, existing := c.existing(s)
	return slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		_, ours := c.claimedFor(f)
		return (ours || slices.Contains(existing, f)) && (f != finalizer || !others)
	})
}

// isClaimed reports whether a Service has a finalizer of ours. That of Services without a
// class is used by others, too: foreign says that the Service was seen with a class of theirs.
func (c *Controller) isClaimed(s *corev1.Service, foreign bool) bool {
	if _, existing := c.existing(s); !foreign && c.serves(s) && slices.ContainsFunc(s.Finalizers, func(f string) bool { return slices.Contains(existing, f) }) {
		return true
	}
	return slices.ContainsFunc(s.Finalizers, func(f string) bool {
		_, ours := c.claimedFor(f)
		if f == finalizer && (foreign || wants(s) && !c.serves(s)) {
			return false
		}
		return ours
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
// than its class now.
func (c *Controller) classChanged(e *entry, s *corev1.Service) bool {
	now := value(s.Spec.LoadBalancerClass)
	if e.made {
		return value(e.service.Spec.LoadBalancerClass) != now
	}
	return slices.ContainsFunc(s.Finalizers, func(f string) bool {
		before, ours := c.claimedFor(f)
		return ours && before != now
	})
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
