package lb

import (
	"slices"
	"strings"
)

// classDomain is what the values of spec.loadBalancerClass that are ours begin with.
const classDomain = "isthmus-cloud.github.io/"

// Classes say which Services of type LoadBalancer one controller serves, so that several
// can live side by side in a cluster.
type Classes struct {
	// Provider is cloud.Provider.Name: "isthmus-cloud.github.io/<provider>" is its own class.
	Provider string
	// Names are cloud.Provider.LoadBalancerClasses: each adds
	// "isthmus-cloud.github.io/<provider>-<name>".
	Names []string
	// Default tells that Services without a class are served, too.
	Default bool
}

// Find says whether a Service with this spec.loadBalancerClass (nil for none) is served
// and, if so, by which of Names; the name is empty for the provider's own class and for no
// class.
func (c Classes) Find(class *string) (name string, served bool) {
	if class == nil {
		return "", c.Default
	}
	if *class == c.Own() {
		return "", true
	}
	name, ok := strings.CutPrefix(*class, c.Own()+"-")
	if !ok || !slices.Contains(c.Names, name) {
		return "", false
	}
	return name, true
}

// Misspelled reports whether the class is one of the provider's but of none of Names, so
// that nobody serves it.
func (c Classes) Misspelled(class *string) bool {
	_, served := c.Find(class)
	return class != nil && !served && strings.HasPrefix(*class, c.Own()+"-")
}

// Own is the provider's own class. The others are it with "-" and a name.
func (c Classes) Own() string { return classDomain + c.Provider }

// All returns the classes that are served, as spec.loadBalancerClass has them.
func (c Classes) All() []string {
	out := []string{c.Own()}
	for _, name := range c.Names {
		out = append(out, c.Own()+"-"+name)
	}
	return out
}
