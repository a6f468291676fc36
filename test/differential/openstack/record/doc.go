// Package record runs openstack-cloud-controller-manager's binary on groups, from scratch and on what ours has left, and
// makes recordings of it.
package record
