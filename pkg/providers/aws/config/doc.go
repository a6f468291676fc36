// Package config is cloud.conf: its sections and keys as a typed struct, decoded, with defaults, and checked.
//
// The keys and their meanings are those of the existing manager. It fails later on values that it cannot use; here a bad value is
// an error: all are told at once, each with file, section and key. What it passes over and works with is a warning here, so that
// a file that it runs with is taken over as it is: an unknown key, an ID of another form than AWS', a key that has no effect.
//
// It does not reach a cloud, and no other package of the provider: whether an ID exists is found out where it is used.
package config

//go:generate go run ../../../../hack/gen-cloudconf aws ../../../../docs/reference/cloud-conf-aws.md
