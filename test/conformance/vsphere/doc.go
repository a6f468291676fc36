// Package vsphere is the world of the conformance suite for vSphere: govmomi's simulator of a vCenter (vcsim), which others maintain,
// arranged past the provider.
package vsphere
