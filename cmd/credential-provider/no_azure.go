//go:build no_azure

package main

type azureSections struct{}

func acrSections() []section { return nil }
