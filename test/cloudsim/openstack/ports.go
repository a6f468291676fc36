package openstack

import "net/netip"

// This file is the seam between Nova and Neutron. Neutron (network_*.go) owns ports; Nova calls,
// with mu held:
//
//	func (s *Sim) createServerPort(w portWish) (portView, error)   // a port with a fixed IP
//	func (s *Sim) bindPort(portID, deviceID, zone string) (portView, error) // an existing port
//	func (s *Sim) portsOf(deviceID string) []portView              // in order of creation; must be fast (indexed)
//	func (s *Sim) deletePortsOf(deviceID string)                   // deletes the ports, unassociates floating IPs
//	func (s *Sim) networkName(id string) (string, bool)
//
// and Start calls s.seedNetwork() and s.seedOctavia() once. Sim.Defaults() (ids of the seeded network) is Neutron's too.

// portWish says what port a new server gets.
type portWish struct {
	DeviceID  string
	NetworkID string     // "" for the seeded private network
	FixedIP   netip.Addr // zero for the next free one
	Zone      string     // device_owner is "compute:<Zone>"
	ProjectID string
}

// portView is what Nova shows of a port.
type portView struct {
	ID, NetworkID, NetworkName, MAC, Status string
	FixedIPs                                []fixedIP
	// FloatingIPs are the addresses associated with any fixed IP of the port.
	FloatingIPs []netip.Addr
}

// fixedIP is one address of a port.
type fixedIP struct {
	SubnetID string
	IP       netip.Addr
}

// Defaults are the ids of what Start has made.
type Defaults struct {
	NetworkID, SubnetID, ExternalNetworkID, ExternalSubnetID, RouterID, SecurityGroupID string
}
