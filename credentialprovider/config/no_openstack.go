//go:build no_openstack

package config

type openstackSections struct{}

func openstackRegistrySections() []section { return nil }
