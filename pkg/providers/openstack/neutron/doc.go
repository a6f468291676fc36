// Package neutron is what several parts of the provider read and change in Neutron: ports, subnets,
// floating IPs, security groups, and which extensions there are.
//
// It does not decide what a Service or a route needs. What is written as a whole, as lists of a port are,
// is guarded by the object's revision here, once; and a list that many Services share is written once for
// all that come at the same time, by pkg/joint.
package neutron
