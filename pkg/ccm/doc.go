// Package ccm composes the cloud controller manager: flags, the manager, three controllers
// of k8s.io/cloud-provider (node, node lifecycle, route), those of pkg/controllers, health
// and the secure port. It is the only adapter between pkg/cloud and k8s.io/cloud-provider, and
// it uses neither that module's app nor its options package: those link the generic API
// server.
//
// What runs where: the secure port, the informers, the provider's background work and
// everything added with Add run on every replica. The controllers run on the replica that
// holds the lease, the same lease that the other cloud controller managers use
// (kube-system/cloud-controller-manager), so that two never act at once.
package ccm
