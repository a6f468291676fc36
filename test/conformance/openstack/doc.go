// Package openstack is the world of the conformance suite for OpenStack: what arranges and
// observes a cloud past the provider, with gophercloud. It is the same for the simulator and for
// a real OpenStack; it needs a project that nobody else uses, for the suite lists all that is there.
package openstack

//go:generate go run ../../../hack/gen-conformance ../../.. ../../../docs/reference/conformance.md
