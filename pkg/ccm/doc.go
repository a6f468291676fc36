// Package ccm composes the cloud controller manager: the manager, two controllers of
// k8s.io/cloud-provider (node, node lifecycle), those of pkg/controllers, health and the secure
// port. Its sub-packages have what it composes: options the flags, leader the leases, serving the
// secure port, nodes the adapter between pkg/cloud and k8s.io/cloud-provider, apiclient the
// clients' configuration, csitopology a view of volumes. None of them uses that module's app or
// options package: those link the generic API server.
//
// What runs where: the secure port, the informers, the provider's background work and
// everything added with Add run on every replica. The controllers run on the replica that
// holds the lease, the same lease that the other cloud controller managers use
// (kube-system/cloud-controller-manager), so that two never act at once.
package ccm
