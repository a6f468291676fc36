// Package openstack compares what Isthmus does for Services on OpenStack with what
// openstack-cloud-controller-manager (OCCM) does: scenarios, a recorder that runs OCCM's binary,
// recordings, and the replay against them without OCCM.
//
// Does: describe scenarios as tables (Groups), make the World they are played in, read what the
// cloud and the API hold with identifiers and addresses replaced by symbols (State), make it
// again (Restore), compare two of it (Compare) and sort the differences by the reasons that a
// typed list gives (Intended).
//
// Some scenarios are recorded in a real cloud as well (RealGroups): that OCCM does the same there tells that the
// simulator is like it.
//
// Does not: hold code of OCCM. The recordings are what it has done; `make record-occm
// OCCM=PATH` makes them anew.
package openstack

//go:generate go run ../../../hack/gen-differential testdata ../../../docs/reference/differential.md ../../../docs/guides/migrate-from-occm.md
