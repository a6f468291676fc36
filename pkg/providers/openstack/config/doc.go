// Package config is cloud.conf: its sections and keys as a typed struct, decoded, with defaults,
// and checked, and the words that its keys have (methods of balancing, providers, patterns of
// subnets' names).
//
// It does not reach a cloud, and no other package of the provider: whether an ID exists is
// found out where it is used. What the existing manager starts with is a warning at most, because
// a file must not keep a cluster that is taken over without a manager; else all errors are
// told at once, each with file, section and key.
package config

//go:generate go run ../../../../hack/gen-cloudconf openstack ../../../../docs/reference/cloud-conf-openstack.md
