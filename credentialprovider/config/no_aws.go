//go:build no_aws

package config

type awsSections struct{}

// Partitions are none.
func Partitions() []string { return nil }

func ecrSections() []section { return nil }
