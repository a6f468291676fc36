// Package api reaches OpenStack's services: a client of the session's, one collection or
// document at a time, every error in the kinds of pkg/cloud, and in which project and place an
// answer was given. In a dry run nothing that is sent changes anything.
//
// It does not know what the documents mean, nor cloud.conf: nova, cinder, neutron and the load
// balancers do. It is stricter than gophercloud's pagers and error types in one respect, and
// exists for it: what a list lacks, and what a service says is not found, Nodes are deleted on.
// See ListAll and WrapError.
package api
