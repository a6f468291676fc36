// Package record runs the binary of cloud-provider-aws' aws-cloud-controller-manager on groups, and makes recordings of it.
package record
