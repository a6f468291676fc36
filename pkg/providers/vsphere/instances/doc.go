// Package instances answers for the machines of one vCenter: which is a Node's, its addresses, its type, its zone, and whether it runs.
//
// Many are found in one collection of all machines, few by their UUIDs. Which machine a Node is, is proven by its UUID, which guests
// report in one of two orders; by name alone only where the Node does not report another one. What is not in vCenter's answer is
// "not found" only where the vCenter shows other machines.
package instances
