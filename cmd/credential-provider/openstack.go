//go:build !no_openstack

package main

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
		enable: func(c *config) { c.OpenStack = orNew(c.OpenStack) },
		identity: func(c *config) *credentialprovider.Identity {
			return fieldOf(c.OpenStack, func(s *openstack.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(*config) string { return "" }, // as Keystone's identity provider has it
		annotations: []string{openstack.ProjectAnnotation},
		open: func(c *config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			return opened(openstack.New(*c.OpenStack, o))
		},
		login: func(c *config, file string) { c.OpenStack.CloudConfig = file },
	}}
}
