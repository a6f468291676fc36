// Package instances answers for the VirtualMachine objects of the guest cluster's namespace: which is a Node's, its addresses, its
// zone, and whether it runs.
//
// Any number of Nodes takes one list, as the API server selects by no field of the status. A machine is a Node's by the UUID in the
// provider ID, and before there is one by its name, which is the Node's. "Not found" is a list's word, of the moment, that shows
// other machines: one that shows none at all is of another namespace, or of a Supervisor that was restored.
package instances
