//go:build !no_gcp

package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/artifactregistry"
)

// gcpSections are the sections of the file of --config about registries of Google Cloud.
type gcpSections struct {
	ArtifactRegistry *artifactregistry.Config `yaml:"artifactregistry"`
}

func artifactRegistrySections() []section {
	return []section{{
		name:   "artifactregistry",
		enable: func(c *Config) { c.ArtifactRegistry = orNew(c.ArtifactRegistry) },
		identity: func(c *Config) *credentialprovider.Identity {
			return fieldOf(c.ArtifactRegistry, func(s *artifactregistry.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(c *Config) string { return c.ArtifactRegistry.Audience() },
		annotations: []string{artifactregistry.AccountAnnotation, artifactregistry.PeerAccountAnnotation, artifactregistry.PeerOptInAnnotation},
		open: func(c *Config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			p, err := artifactregistry.New(*c.ArtifactRegistry, o)
			return opened(p, nil, err)
		},
		files: func(c *Config) []File {
			return []File{{"credentialsFile", c.ArtifactRegistry.CredentialsFile}}
		},
	}}
}
