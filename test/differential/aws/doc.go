// Package aws compares what Isthmus does for Nodes, Services and routes on AWS with what the existing manager does, which is
// aws-cloud-controller-manager of kubernetes/cloud-provider-aws: scenarios, a recorder that runs its binary, recordings, and the
// replay against them without it.
//
// The scenarios are in package script, what they are played in and how in play, what is left of them in snapshot; record runs the
// existing manager, recording keeps what it did, and difference compares. This package has the tests, which play ours against the
// recordings (testdata).
//
// Does not: hold code of the existing manager. The recordings are what it has done; `make record-aws CCM=PATH CCM_VERSION=…` makes
// them anew.
package aws

//go:generate go run ../../../hack/gen-differential -aws testdata ../../../docs/reference/differential-aws.md
