//go:build no_gcp

package main

type gcpSections struct{}

func artifactRegistrySections() []section { return nil }
