package neutron

import (
	"context"
	"errors"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// Port is a Neutron port, as much of it as anything reads: who asks for some fields of a port
// gets no others.
type Port struct {
	ID           string        `json:"id"`
	DeviceID     string        `json:"device_id"`
	DeviceOwner  string        `json:"device_owner"`
	NetworkID    string        `json:"network_id"`
	Status       string        `json:"status"`
	MAC          string        `json:"mac_address"`
	FixedIPs     []FixedIP     `json:"fixed_ips"`
	Groups       []string      `json:"security_groups"`
	Pairs        []AddressPair `json:"allowed_address_pairs"`
	PortSecurity *bool         `json:"port_security_enabled"`
	Revision     int           `json:"revision_number"`
	TrunkDetails *struct {
		SubPorts []struct {
			PortID string `json:"port_id"`
		} `json:"sub_ports"`
	} `json:"trunk_details"`
}

// FixedIP is an address of a port on one of its subnets.
type FixedIP struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// AddressPair is what a port may send from beside its own addresses.
type AddressPair struct {
	IPAddress  string `json:"ip_address"`
	MACAddress string `json:"mac_address,omitempty"`
}

// Is reports whether it is the address.
func (f FixedIP) Is(ip netip.Addr) bool {
	addr, err := netip.ParseAddr(f.IPAddress)
	return err == nil && addr == ip
}

// Addresses are the port's own addresses.
func (p *Port) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, f := range p.FixedIPs {
		if addr, err := netip.ParseAddr(f.IPAddress); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// IsOpen reports whether the port has no port security: it may send from any address, takes no
// security groups, and Neutron refuses both.
func (p *Port) IsOpen() bool { return p.PortSecurity != nil && !*p.PortSecurity }

// PortChange is a change of one list of a port, which is written as a whole.
type PortChange struct {
	Op, Key string // what it is called in errors; the list
	Tries   int    // how often the port may have been changed by others meanwhile
}

// Apply writes what change makes of the list, if anything. The port's revision guards what others
// have written since it was read: then it is read again and changed anew. A Neutron without such a guard
// has the port read just before. p is the port as it is then.
func (c PortChange) Apply(ctx context.Context, client *api.Client, can map[string]bool, p *Port, change func(*Port) any) error {
	op, path := client.On(ctx, api.Network, c.Op), []string{"ports", p.ID}
	var stale error
	for try := 1; ; try++ {
		if stale != nil || Guard(can, p.Revision) == nil {
			now, err := api.Get[Port](ctx, op, "port", path...)
			switch {
			case cloud.IsNotFound(err), err != nil && stale == nil:
				return err
			case err != nil:
				return errors.Join(stale, err)
			}
			*p = *now
		}
		list := change(p)
		if list == nil {
			return nil
		}
		body := map[string]any{"port": map[string]any{c.Key: list}}
		now, err := api.Put[Port](ctx, op, "port", api.Change{Path: path, Body: body, Headers: Guard(can, p.Revision)})
		if err == nil {
			*p = *now
			return nil
		}
		if stale = err; !cloud.IsStale(err) || try == c.Tries {
			return err
		}
	}
}
