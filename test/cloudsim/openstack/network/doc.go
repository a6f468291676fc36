// Package network is Neutron: networks, subnets, ports, routers, floating IPs, security groups, trunks, extensions.
//
// It owns all ports. Other services have theirs made through core.Ports, and are told there of changes; it knows
// neither servers nor load balancers.
package network
