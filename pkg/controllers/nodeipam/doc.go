// Package nodeipam gives each Node its pod CIDRs, as the range allocator of
// kube-controller-manager does: one CIDR of each IP family, of a fixed size, from the
// cluster CIDRs. Its flags, events and metrics are named as there.
//
// A Node's CIDRs are set once and never change; the API server sees to that. So all state
// is in the Nodes, and what the controller keeps in memory, the ledger, is rebuilt at each
// start of a term from one consistent list of them, before anything is given away.
//
// What keeps two Nodes from getting the same CIDR:
//
//   - Only the leader allocates, and a write under way ends before the next leader begins
//     (patchTimeout).
//   - The list at the start is asked of the API server, not of a cache that may lag behind
//     the writes of the leader before.
//   - A CIDR that was offered to a Node belongs to it from then on, also when the answer to
//     the write was lost: the next try offers the same one. It is free again only when the
//     Node is gone or turns out to have others.
//   - Nodes are told apart by their UIDs, and a write is for one UID only.
//
// FromCloud takes the place of all this where the cloud has given each instance its CIDRs.
package nodeipam
