//go:build no_openstack

package main

type openstackSections struct{}

func openstackRegistrySections() []section { return nil }
