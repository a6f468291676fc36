//go:build !no_aws

package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/ecr"
)

// awsSections are the sections of the file of --config about registries of AWS.
type awsSections struct {
	ECR *ecr.Config `yaml:"ecr"`
}

// Partitions are those of AWS.
func Partitions() []string { return ecr.Partitions() }

func ecrSections() []section {
	return []section{{
		name:   "ecr",
		enable: func(c *Config) { c.ECR = orNew(c.ECR) },
		identity: func(c *Config) *credentialprovider.Identity {
			return fieldOf(c.ECR, func(s *ecr.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(*Config) string { return ecr.Audience },
		annotations: []string{ecr.RoleAnnotation, ecr.PeerRoleAnnotation},
		open: func(c *Config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			p, err := ecr.New(*c.ECR, o)
			return opened(p, nil, err)
		},
		inPartitions: ecr.InPartitions,
	}}
}
