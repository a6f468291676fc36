package kubelet

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the kubelet's API for its configuration and for providers.
const (
	configGroup   = "kubelet.config.k8s.io"
	configKind    = "CredentialProviderConfig"
	ProviderGroup = "credentialprovider.kubelet.k8s.io"
)

// The values of cacheType.
const (
	CacheToken          = "Token"
	CacheServiceAccount = "ServiceAccount"
)

// Config is a CredentialProviderConfig.
type Config struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Providers  []Entry `yaml:"providers"`
}

// Entry is one provider in it.
type Entry struct {
	Name            string           `yaml:"name"`
	APIVersion      string           `yaml:"apiVersion"`
	MatchImages     []string         `yaml:"matchImages"`
	CacheDuration   string           `yaml:"defaultCacheDuration"`
	Args            []string         `yaml:"args,omitempty"`
	Env             []Variable       `yaml:"env,omitempty"`
	TokenAttributes *TokenAttributes `yaml:"tokenAttributes,omitempty"`

	// File is where it was read.
	File string `yaml:"-"`
}

// Variable is an environment variable of a provider.
type Variable struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// TokenAttributes make the kubelet send tokens of the pods' service accounts.
type TokenAttributes struct {
	Audience            string   `yaml:"serviceAccountTokenAudience"`
	CacheType           string   `yaml:"cacheType"`
	Require             *bool    `yaml:"requireServiceAccount"`
	RequiredAnnotations []string `yaml:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalAnnotations []string `yaml:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// Level says how bad a Finding is.
type Level string

// The levels.
const (
	// Problem is what keeps images from being pulled with credentials, or a kubelet from starting.
	Problem Level = "problem"
	// Warning is what works, but probably not as it was meant.
	Warning Level = "warning"
	// Unchecked is what could not be looked at.
	Unchecked Level = "unchecked"
)

// Finding is something that a user should know about a configuration.
type Finding struct {
	Level Level
	// File, Entry (the provider's name) and Field say where; empty for none.
	File, Entry, Field string
	// Cause is what is wrong and what follows, Next what to do.
	Cause, Next string
}

// String returns the finding as one line.
func (f Finding) String() string {
	var where []string
	if f.File != "" {
		where = append(where, f.File)
	}
	if f.Entry != "" {
		where = append(where, fmt.Sprintf("provider %q", f.Entry))
	}
	if f.Field != "" {
		where = append(where, f.Field)
	}
	text := string(f.Level) + ": "
	if len(where) > 0 {
		text += strings.Join(where, ": ") + ": "
	}
	text += f.Cause
	if f.Next != "" {
		text += "; " + f.Next
	}
	return text
}

// hasProblem reports whether a finding is a problem.
func hasProblem(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Problem })
}

// versions are those of the kubelet's configuration, and of requests to providers.
func versions() []string { return []string{"v1", "v1beta1", "v1alpha1"} }
