// Package openstack compares what Isthmus does for Services on OpenStack with what
// openstack-cloud-controller-manager (OCCM) does: scenarios, a recorder that runs OCCM's binary,
// recordings, and the replay against them without OCCM.
//
// The scenarios are in package script, what they are played in and how in play, what is left of them in
// snapshot; record runs OCCM, recording keeps what it did, and difference compares. This package has the tests,
// which play ours against the recordings (testdata).
//
// Some scenarios are recorded in a real cloud as well (script.RealGroups): that OCCM does the same there tells that
// the simulator is like it.
//
// Does not: hold code of OCCM. The recordings are what it has done; `make record-occm
// OCCM=PATH` makes them anew.
package openstack

//go:generate go run ../../../hack/gen-differential testdata ../../../docs/reference/differential.md ../../../docs/guides/migrate-from-occm.md
