// Package config is the cloud.conf of the paravirtual mode: how the Supervisor is reached, and what is served of the guest cluster.
//
// The existing manager has flags in place of the keys, whose names are theirs, and fixed paths in place of the defaults. Its own file
// says nothing in this mode; so that a key of the other mode is not taken for one that counts, each unknown key is an error here.
package config

//go:generate go run ../../../../../hack/gen-cloudconf vsphere-paravirtual ../../../../../docs/reference/cloud-conf-vsphere-paravirtual.md
