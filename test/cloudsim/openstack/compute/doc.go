// Package compute is Nova, with as much of Glance as servers need to have an image: servers and their life, metadata,
// interfaces, flavors, zones.
//
// A server's ports are Neutron's (core.Ports): nothing of them is kept here, so that both say the same.
package compute
