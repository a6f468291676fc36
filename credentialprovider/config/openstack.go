//go:build !no_openstack

package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/openstack"
)

// openstackSections are the sections of the file of --config about registries of OpenStack.
type openstackSections struct {
	OpenStack *openstack.Config `yaml:"openstack"`
}

func openstackRegistrySections() []section {
	return []section{{
		name:   "openstack",
		enable: func(c *Config) { c.OpenStack = orNew(c.OpenStack) },
		identity: func(c *Config) *credentialprovider.Identity {
			return fieldOf(c.OpenStack, func(s *openstack.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(*Config) string { return "" }, // as Keystone's identity provider has it
		annotations: []string{openstack.ProjectAnnotation},
		open: func(c *Config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			return opened(openstack.New(*c.OpenStack, o))
		},
		login: func(c *Config, file string) { c.OpenStack.CloudConfig = file },
	}}
}
