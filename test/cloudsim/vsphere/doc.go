// Package vsphere arranges govmomi's own simulator of a vCenter (vcsim): with TLS, a user, tags and volumes, a count of the requests
// of others, delays and outages. What a vCenter does is vcsim's word, not ours.
package vsphere
