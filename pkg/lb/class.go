package lb

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Classes say which Services of type LoadBalancer one controller serves, so that several
// can live side by side in a cluster.
type Classes struct {
	// Default tells that Services without a class are served, too.
	Default bool

	traits *cloud.LoadBalancerTraits
}

// NewClasses returns the classes of a provider with these traits.
func NewClasses(traits *cloud.LoadBalancerTraits, serveDefault bool) Classes {
	return Classes{Default: serveDefault, traits: traits}
}

// Of says whether a Service is served and, if so, by which LoadBalancerSpec.Class, which is empty
// for the provider's own class and for no class.
func (c Classes) Of(service *corev1.Service) (name string, served bool) {
	if class := service.Spec.LoadBalancerClass; class != nil {
		return c.Find(*class)
	}
	return "", c.Default && (c.traits.Elsewhere == nil || c.traits.Elsewhere(service) == "")
}

// Find is Of for a value of spec.loadBalancerClass.
func (c Classes) Find(class string) (name string, served bool) {
	name, served = c.traits.Classes[class]
	return name, served
}

// Misspelled reports whether the class begins as the provider's do but is none of them, so
// that nobody serves it.
func (c Classes) Misspelled(class string) bool {
	if _, served := c.Find(class); served {
		return false
	}
	return slices.ContainsFunc(c.Own(), func(own string) bool { return strings.HasPrefix(class, own+"-") })
}

// Own are the provider's own classes, those without a LoadBalancerSpec.Class. Others are one of them
// with "-" and a name, or whole values of their own.
func (c Classes) Own() []string {
	return slices.DeleteFunc(c.All(), func(class string) bool { return c.traits.Classes[class] != "" })
}

// All returns the classes that are served, as spec.loadBalancerClass has them.
func (c Classes) All() []string { return slices.Sorted(maps.Keys(c.traits.Classes)) }
