// Package nova answers for servers: which there are, their Nodes' addresses, types, zones and
// labels, and which of them this process runs on.
//
// It does not decide that a Node goes. It decides what counts as Nova's own word that a server is
// not there, which Nodes are deleted on, see Instances and confirmAbsent; and in which order
// addresses are, because Nodes keep their first one for life, see nodeAddresses.
package nova
