//go:build no_gcp

package config

type gcpSections struct{}

func artifactRegistrySections() []section { return nil }
