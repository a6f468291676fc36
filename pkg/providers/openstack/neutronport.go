package openstack

import (
	"context"
	"errors"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// port is a Neutron port, as much of it as anything reads: who asks for some fields of a port
// gets no others.
type port struct {
	ID           string        `json:"id"`
	DeviceID     string        `json:"device_id"`
	DeviceOwner  string        `json:"device_owner"`
	NetworkID    string        `json:"network_id"`
	Status       string        `json:"status"`
	MAC          string        `json:"mac_address"`
	FixedIPs     []fixedIP     `json:"fixed_ips"`
	Groups       []string      `json:"security_groups"`
	Pairs        []addressPair `json:"allowed_address_pairs"`
	PortSecurity *bool         `json:"port_security_enabled"`
	Revision     int           `json:"revision_number"`
	TrunkDetails *struct {
		SubPorts []struct {
			PortID string `json:"port_id"`
		} `json:"sub_ports"`
	} `json:"trunk_details"`
}

// fixedIP is an address of a port on one of its subnets.
type fixedIP struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// addressPair is what a port may send from beside its own addresses.
type addressPair struct {
	IPAddress  string `json:"ip_address"`
	MACAddress string `json:"mac_address,omitempty"`
}

// is reports whether it is the address.
func (f fixedIP) is(ip netip.Addr) bool {
	addr, err := netip.ParseAddr(f.IPAddress)
	return err == nil && addr == ip
}

// addresses are the port's own addresses.
func (p *port) addresses() []netip.Addr {
	var out []netip.Addr
	for _, f := range p.FixedIPs {
		if addr, err := netip.ParseAddr(f.IPAddress); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// isOpen reports whether the port has no port security: it may send from any address, takes no
// security groups, and Neutron refuses both.
func (p *port) isOpen() bool { return p.PortSecurity != nil && !*p.PortSecurity }

// portChange is a change of one list of a port, which is written as a whole.
type portChange struct {
	Op, Key string // what it is called in errors; the list
	Tries   int    // how often the port may have been changed by others meanwhile
}

// apply writes what change makes of the list, if anything. The port's revision guards what others
// have written since it was read: then it is read again and changed anew. p is the port as it is then.
func (c portChange) apply(ctx context.Context, client *api.Client, can map[string]bool, p *port, change func(*port) any) error {
	for try := 1; ; try++ {
		list := change(p)
		if list == nil {
			return nil
		}
		sc, err := client.Network(ctx)
		if err != nil {
			return err
		}
		var doc struct {
			Port *port `json:"port"`
		}
		url := sc.ServiceURL("ports", p.ID)
		body := map[string]any{"port": map[string]any{c.Key: list}}
		err = api.PutJSON(ctx, sc, url, body, &doc, guard(can, p.Revision))
		if err == nil && doc.Port == nil {
			err = errors.New("the answer is not about this port")
		}
		if err == nil {
			*p = *doc.Port
			return nil
		}
		err = api.WrapError(c.Op, err)
		if !cloud.IsStale(err) || try == c.Tries {
			return err
		}
		doc.Port = nil
		switch getErr := api.WrapError(c.Op, api.GetJSON(ctx, sc, url, &doc)); {
		case cloud.IsNotFound(getErr):
			return getErr
		case getErr != nil || doc.Port == nil:
			return errors.Join(err, getErr)
		}
		*p = *doc.Port
	}
}
