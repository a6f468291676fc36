// Package instances answers for EC2's instances behind Nodes: pkg/cloud's Instances.
//
// instances.go finds them with few calls, instance.go makes of one what its Node gets, addresses.go the addresses among it, and
// topology.go the labels of where it is in the network. It deletes nothing, and does not know Nodes that are no instances:
// providerid leaves them to nobody.
package instances
