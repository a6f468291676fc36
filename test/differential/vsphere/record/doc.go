// Package record runs the binary of cloud-provider-vsphere's vsphere-cloud-controller-manager on groups, and makes recordings of it.
package record
