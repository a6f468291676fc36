// Package loadbalancers makes Services of type LoadBalancer as VirtualMachineService objects, which VM Operator in the Supervisor
// turns into load balancers.
//
// # Names and marks
//
// An object is named after the cluster and a sum of the Service's name, as the existing manager names it; one with another name, of
// an older version, is found by the labels that all have. Whose it is says its owner reference, to the guest cluster's object with a
// UID of its own (Cluster.ID), and a label with the cluster's UID, which objects get that are made or changed here. So those of the
// existing manager are known as the cluster's without a write.
//
// # What is left as it is
//
// The selector is written once: which machines get traffic is VM Operator's business, by their labels, and no change of Nodes is a
// write. Of annotations two are kept, for externalTrafficPolicy Local; those of others stay.
package loadbalancers
