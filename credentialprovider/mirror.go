package credentialprovider

import (
	"errors"
	"fmt"
	"slices"
)

// Mirror says that images of one registry come through another (a pull-through cache), to which
// the container runtime redirects them.
type Mirror struct {
	// Upstream is the registry that images name, as host or host:port.
	Upstream string `yaml:"upstream"`
	// Registry is the registry whose credentials they need.
	Registry string `yaml:"registry"`
}

// MirrorRules say what mirrors of one kind of registry may be.
type MirrorRules struct {
	// Section is the kind's section in the configuration, for errors.
	Section string
	// Kind is the kind's name with its article ("an ECR registry"), and Target what mirrors
	// have to lead to ("private ECR registry, such as …").
	Kind, Target string
	// Serves reports whether a registry is of the kind, and Leads whether mirrors may lead to it.
	// They get its normal form.
	Serves, Leads func(registry string) bool
}

// CheckMirrors returns the registries by their upstreams, both in their normal form, or all
// mistakes.
func CheckMirrors(list []Mirror, rules MirrorRules) (map[string]string, error) {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(rules.Section+": mirrors: "+format, args...))
	}
	registries := map[string]string{}
	for _, m := range list {
		upstream, invalid := NormalRegistry(m.Upstream)
		if invalid != nil {
			add("upstream: %w", invalid)
		} else if rules.Serves(upstream) {
			add("upstream %s is %s itself; remove it", upstream, rules.Kind)
		}
		registry, err := NormalRegistry(m.Registry)
		if err != nil {
			add("registry: %w", err)
		} else if !rules.Leads(registry) {
			add("registry %s is no %s", registry, rules.Target)
		}
		if _, twice := registries[upstream]; twice && invalid == nil {
			add("upstream %s is there twice; remove one", upstream)
		}
		registries[upstream] = registry
	}
	return registries, errors.Join(errs...)
}

// MatchedNames are the names for the kubelet's matchImages under which images have these registries,
// each as host or host:port: index.docker.io, for example, is none.
func MatchedNames(registries ...string) []string {
	var names []string
	for _, r := range registries {
		if name, err := NormalRegistry(r); err == nil && !slices.Contains(names, name) { // a mistake is told elsewhere
			names = append(names, name)
		}
	}
	return names
}
