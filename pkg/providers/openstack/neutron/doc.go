// Package neutron is what several parts of the provider read and change in Neutron: ports, subnets,
// floating IPs, and which extensions there are.
//
// It does not know Nodes, routes or Services. What is written as a whole, as lists of a port are,
// is guarded by the object's revision here, once.
package neutron
