//go:build no_aws

package main

type awsSections struct{}

func partitions() []string { return nil }

func ecrSections() []section { return nil }
