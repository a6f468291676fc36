// Package router sets pod routes on Neutron routers, with the address pairs of the Nodes' ports
// that they need, and records which are the cluster's.
//
// It does not choose pod CIDRs or next hops, and removes nothing that may be an operator's: tags
// on the router are the record of what is ours, see record.go.
package router
