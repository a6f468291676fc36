//go:build !no_aws

package main

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/ecr"
)

// awsSections are the sections of the file of --config about registries of AWS.
type awsSections struct {
	ECR *ecr.Config `yaml:"ecr"`
}

// partitions are those of AWS.
func partitions() []string { return ecr.Partitions() }

func ecrSections() []section {
	return []section{{
		name:   "ecr",
		enable: func(c *config) { c.ECR = orNew(c.ECR) },
		identity: func(c *config) *credentialprovider.Identity {
			return fieldOf(c.ECR, func(s *ecr.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(*config) string { return ecr.Audience },
		annotations: []string{ecr.RoleAnnotation, ecr.PeerRoleAnnotation},
		open: func(c *config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			p, err := ecr.New(*c.ECR, o)
			return opened(p, nil, err)
		},
		inPartitions: ecr.InPartitions,
	}}
}
