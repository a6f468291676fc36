package lb

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Claims tell by a Service's finalizers whose it is. All fields are required but Cluster, which Hint has.
type Claims struct {
	Classes  Classes
	Cluster  cloud.Cluster
	Provider *cloud.Provider
}

// Wants reports whether a Service asks for a load balancer.
func Wants(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

// Turn is what is to be done for a Service now.
type Turn int

const (
	// Nothing is to be done: it asks for no load balancer, and has none of ours.
	Nothing Turn = iota
	// Serve means that its load balancer is to be as it says.
	Serve
	// Replace is Serve after Remove: a load balancer cannot change its class.
	Replace
	// Remove means that its load balancer is to be deleted.
	Remove
	// Leave it alone: others serve it, or nobody does.
	Leave
	// Strand it: its load balancer is of a class that there is no longer; see Stranded.
	Strand
)

// Turn says what is to be done for s. made is the Service as its load balancer was made last by this process, nil where that has made none.
func (c Claims) Turn(s, made *corev1.Service) Turn {
	asks, changed := Wants(s) && s.DeletionTimestamp == nil, c.classChanged(s, made)
	switch ours := made != nil || c.Has(s); {
	case asks && c.serves(s) && changed:
		return Replace
	case asks && c.serves(s):
		return Serve
	case ours && (!asks || changed):
		return Remove
	case asks:
		return Leave
	case c.Stranded(s) != "":
		return Strand
	}
	return Nothing
}

// Finalizer keeps a Service without a load balancer class until its load balancer is gone.
// It is the framework's. For a Service with a class, the class itself is the finalizer: it
// tells whose the Service is after the API server has wiped the class, as it does when the
// type changes; and the framework, which takes its own finalizer off Services with a class,
// too, leaves it alone.
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// finalizerFor is the finalizer of Services of a class, nil for none.
func finalizerFor(class *string) string {
	if class == nil {
		return Finalizer
	}
	return *class
}

// of returns the class, empty for none, that a finalizer of ours tells of.
func (c Claims) of(f string) (class string, ours bool) {
	if f == Finalizer {
		return "", c.Classes.Default
	}
	_, served := c.Classes.Find(f)
	return f, served
}

// Finalizers returns the finalizers that a Service we serve shall have: of ours only that
// of its class.
func (c Claims) Finalizers(s *corev1.Service) []string {
	want := finalizerFor(s.Spec.LoadBalancerClass)
	set, existing := c.existing(s)
	out := slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		_, ours := c.of(f)
		return ours && f != want || slices.Contains(existing, f) && !slices.Contains(set, f)
	})
	for _, f := range append([]string{want}, set...) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// Released returns the finalizers that a Service shall have when nothing of ours is left.
// Where others serve it by now, what may be theirs stays for them to let go of: the finalizers of the existing manager, which may
// run for a class that we do not serve, and the framework's while the Service lives. Once that goes, the framework takes its own
// off Services of any class and type, and so do we: a Service that others serve may have it of us, or of an existing manager that
// puts it on all.
func (c Claims) Released(s *corev1.Service) []string {
	others := c.AreOthers(s)
	_, existing := c.existing(s)
	return slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool {
		switch _, ours := c.of(f); {
		case slices.Contains(existing, f):
			return !others
		case f == Finalizer:
			return ours && (!others || s.DeletionTimestamp != nil)
		default:
			return ours
		}
	})
}

// AreOthers reports whether others serve a Service.
func (c Claims) AreOthers(s *corev1.Service) bool { return Wants(s) && !c.serves(s) }

// Has reports whether a Service has a finalizer that is ours to take off now.
func (c Claims) Has(s *corev1.Service) bool {
	_, existing := c.existing(s)
	return slices.ContainsFunc(s.Finalizers, func(f string) bool {
		switch _, ours := c.of(f); {
		case slices.Contains(existing, f):
			return c.serves(s)
		case f == Finalizer:
			return ours && (!c.AreOthers(s) || s.DeletionTimestamp != nil)
		default:
			return ours
		}
	})
}

// Stranded returns the finalizer of a class that the configuration had when the Service got
// it and has no longer, "" for none. Whose load balancer that is cannot be told any more:
// another Isthmus with another configuration may serve the class.
func (c Claims) Stranded(s *corev1.Service) string {
	i := slices.IndexFunc(s.Finalizers, func(f string) bool { return c.Classes.Misspelled(f) })
	if i < 0 {
		return ""
	}
	return s.Finalizers[i]
}

// classChanged reports whether we have made the Service's load balancer for another class
// than its class now. The finalizer tells, also while the class is wiped; one of the class now, beside
// others, says that the load balancer is of that.
func (c Claims) classChanged(s, made *corev1.Service) bool {
	now, claimed := ptr.Deref(s.Spec.LoadBalancerClass, ""), false
	for _, f := range s.Finalizers {
		before, ours := c.of(f)
		if ours && before == now {
			return false
		}
		claimed = claimed || ours
	}
	return claimed || made != nil && ptr.Deref(made.Spec.LoadBalancerClass, "") != now
}

// existing are the finalizers that the cloud's existing manager has on a Service: those that it is to
// have with ours, and all.
func (c Claims) existing(s *corev1.Service) (set, all []string) {
	if c.Provider.LoadBalancing.Finalizers == nil {
		return nil, nil
	}
	return c.Provider.LoadBalancing.Finalizers(c.Hint(s))
}

// Hint is what a Service says of its load balancer, for deletion: without Members, and without what is not valid, as a Service that could
// never be served must still be deletable.
func (c Claims) Hint(s *corev1.Service) *cloud.LoadBalancerSpec {
	return hint(s, c.classOf(s), c.Cluster, c.Provider)
}

// classOf is the LoadBalancerSpec.Class that the Service's load balancer was made with: that of its
// finalizer where the API server has wiped the class.
func (c Claims) classOf(s *corev1.Service) string {
	for _, f := range s.Finalizers {
		if class, ours := c.of(f); ours {
			name, _ := c.Classes.Find(class)
			return name
		}
	}
	class, _ := c.Classes.Of(s)
	return class
}

func (c Claims) serves(s *corev1.Service) bool {
	_, served := c.Classes.Of(s)
	return served
}
