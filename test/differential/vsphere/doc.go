// Package vsphere compares what Isthmus does for Nodes on vSphere with what the existing manager does, which is
// vsphere-cloud-controller-manager of kubernetes/cloud-provider-vsphere: scenarios, a recorder that runs its binary, recordings, and the
// replay against them without it.
//
// The scenarios are in package script, what they are played in and how in play, what is left of them in snapshot; record runs the
// existing manager, recording keeps what it did, and difference compares. This package has the tests, which play ours against the
// recordings (testdata).
//
// Does not: hold code of the existing manager, or load balancers and routes, which are NSX-T's and not served. The recordings are what it
// has done; `make record-vsphere CCM=PATH CCM_VERSION=…` makes them anew.
package vsphere

//go:generate go run ../../../hack/gen-differential -vsphere testdata ../../../docs/reference/differential-vsphere.md
