// Package recording is what openstack-cloud-controller-manager has done in a group, in a file. Who recorded it, and how,
// is package record's.
package recording
