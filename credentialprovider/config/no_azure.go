//go:build no_azure

package config

type azureSections struct{}

func acrSections() []section { return nil }
