// Package config is vsphere.conf: its sections and keys as a typed struct, decoded from YAML or INI, with defaults, and checked.
//
// The keys and their meanings are those of the existing manager, which reads a file as YAML and, where that fails, as INI. What it
// fails on later, when Nodes come, is an error here; what it passes over and works with is a warning. All are told at once.
//
// It does not reach a vCenter, and no other package of the provider.
package config

//go:generate go run ../../../../hack/gen-cloudconf vsphere ../../../../docs/reference/cloud-conf-vsphere.md
