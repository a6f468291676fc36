package core

import "net/netip"

// This file is what Nova and Octavia need of Neutron; the cloud's lock is held in all of it.

// Ports are Neutron's ports, and what belongs to them, for the services that make some of their own.
type Ports interface {
	// Create makes a port with an address and gives it to a server.
	Create(want PortWish) (Port, error)
	// Bind gives an existing port to a server.
	Bind(portID, deviceID, zone string) (Port, error)
	// Of are the ports of a device in order of creation; it is fast.
	Of(deviceID string) []Port
	// DeleteOf deletes the ports of a server.
	DeleteOf(deviceID string)
	Get(id string) (Port, bool)
	// Remove deletes a port; its floating IPs become free.
	Remove(id string)

	NetworkName(id string) (string, bool)
	Subnet(id string) (Subnet, bool)
	// SubnetsOf are a network's subnets in order of creation.
	SubnetsOf(networkID string) []Subnet

	// CreateVIP makes the port of a load balancer's VIPs.
	CreateVIP(want VIPWish) (Port, error)
	// Guard gives a port a new security group, of the services' project, and no others.
	Guard(portID, group string) (groupID string)
	// Unguard takes a group off a port, if that is still there, and deletes the group.
	Unguard(portID, groupID string)
	// MarkFailed marks those floating IPs of a port in whose place nothing can listen.
	MarkFailed(portID string, failed []netip.Addr)
	// Watch has fn called when a port, or what is associated with it, has changed.
	Watch(fn func(portID string))
}

// PortWish says what port a new server gets.
type PortWish struct {
	DeviceID  string
	NetworkID string     // "" for the seeded private network
	FixedIP   netip.Addr // zero for the next free one
	Zone      string     // device_owner is "compute:<Zone>"
	ProjectID string
}

// VIPWish says what port a load balancer gets.
type VIPWish struct {
	ProjectID, Name string
	// FixedIPs are the subnets, and the addresses that are asked for; the first says the network.
	FixedIPs []FixedIPWish
	// Device and Owner are set, and the port is down, as the amphora driver has it; "" for neither.
	Device, Owner string
}

// FixedIPWish is one entry of a port's fixed_ips as asked for.
type FixedIPWish struct {
	SubnetID string `json:"subnet_id"`
	IP       string `json:"ip_address"`
}

// Port is what the others see of a port.
type Port struct {
	ID, ProjectID, DeviceID, NetworkID, NetworkName, MAC, Status string
	FixedIPs                                                     []FixedIP
	FloatingIPs                                                  []FloatingIP
}

// FixedIP is one address of a port.
type FixedIP struct {
	SubnetID string
	IP       netip.Addr
}

// FloatingIP is a floating IP that is associated with an address of a port.
type FloatingIP struct{ IP, Fixed netip.Addr }

// Subnet is what the others see of a subnet.
type Subnet struct {
	ID, NetworkID string
	CIDR          netip.Prefix
}

// Owner is to whom belongs what tests make past the API.
type Owner struct{ UserID, ProjectID string }
