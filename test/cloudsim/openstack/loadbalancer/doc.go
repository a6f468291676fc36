// Package loadbalancer is Octavia: load balancers and all below them, with the states that they go through and what
// the drivers amphora and ovn refuse and forget.
//
// Traffic is package forward's, which it tells where to listen and whom to probe. The VIPs' ports are Neutron's
// (core.Ports), the certificates the key manager's.
package loadbalancer
