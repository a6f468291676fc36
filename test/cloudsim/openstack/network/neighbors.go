package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// neighbors is what other services do with ports. It is no part of Neutron itself, whose methods are those of
// the simulator: here the lock is held.
type neighbors struct{ s *Neutron }

// Ports are for the services that make ports of their own.
func (s *Neutron) Ports() core.Ports { return neighbors{s} }

func (n neighbors) Watch(fn func(portID string)) { n.s.forwardPort = fn }

func (n neighbors) Create(want core.PortWish) (core.Port, error) {
	id := want.NetworkID
	if id == "" {
		id = n.s.defaults.NetworkID
	}
	on := n.s.networks[id]
	if on == nil {
		return core.Port{}, fmt.Errorf("network %s could not be found", id)
	}
	var wishes []core.FixedIPWish
	if want.FixedIP.IsValid() {
		wishes = []core.FixedIPWish{{IP: want.FixedIP.String()}}
	}
	p, err := n.s.newPort(on, want.ProjectID, "", wishes, wishes != nil)
	if err != nil {
		return core.Port{}, fmt.Errorf("port on network %s: %w", id, err)
	}
	n.s.autoAddress(p)
	if g := n.s.defaultGroups[want.ProjectID]; g != nil && p.portSecurity {
		p.groups = []string{g.ID}
	}
	return n.Bind(p.ID, want.DeviceID, want.Zone)
}

func (n neighbors) Bind(portID, deviceID, zone string) (core.Port, error) {
	p := n.s.ports[portID]
	if p == nil {
		return core.Port{}, fmt.Errorf("port %s could not be found", portID)
	}
	if p.deviceID != "" && p.deviceID != deviceID {
		return core.Port{}, fmt.Errorf("port %s is still in use", portID)
	}
	n.s.setDevice(p, deviceID)
	p.owner, p.host, p.status = "compute:"+zone, "compute-"+zone, "ACTIVE"
	if p.trunk != nil {
		for _, sub := range p.trunk.subs {
			sub.port.status = p.status
		}
	}
	p.Changed()
	return n.view(p), nil
}

func (n neighbors) view(p *port) core.Port {
	v := core.Port{ID: p.ID, ProjectID: p.Project, DeviceID: p.deviceID, NetworkID: p.networkID, MAC: p.mac, Status: p.status, FixedIPs: p.fixed}
	v.NetworkName, _ = n.NetworkName(p.networkID)
	for _, f := range n.s.fipsByPort[p.ID] {
		v.FloatingIPs = append(v.FloatingIPs, core.FloatingIP{IP: f.ip, Fixed: f.fixed})
	}
	return v
}

func (n neighbors) Of(deviceID string) []core.Port {
	ports := n.s.portsByDevice[deviceID]
	out := make([]core.Port, len(ports))
	for i, p := range ports {
		out[i] = n.view(p)
	}
	return out
}

func (n neighbors) DeleteOf(deviceID string) {
	for _, p := range slices.Clone(n.s.portsByDevice[deviceID]) {
		if strings.HasPrefix(p.owner, "compute:") {
			n.s.removePort(p)
		}
	}
}

func (n neighbors) Get(id string) (core.Port, bool) {
	p := n.s.ports[id]
	if p == nil {
		return core.Port{}, false
	}
	return n.view(p), true
}

func (n neighbors) Remove(id string) { n.s.removePort(n.s.ports[id]) }

func (n neighbors) NetworkName(id string) (string, bool) {
	x, is := n.s.networks[id]
	if !is {
		return "", false
	}
	return x.Name, true
}

func (n neighbors) Subnet(id string) (core.Subnet, bool) {
	sub := n.s.subnets[id]
	if sub == nil {
		return core.Subnet{}, false
	}
	return core.Subnet{ID: sub.ID, NetworkID: sub.networkID, CIDR: sub.cidr}, true
}

func (n neighbors) SubnetsOf(networkID string) []core.Subnet {
	var out []core.Subnet
	for _, sub := range n.s.subnetsOf(networkID) {
		out = append(out, core.Subnet{ID: sub.ID, NetworkID: sub.networkID, CIDR: sub.cidr})
	}
	return out
}

func (n neighbors) CreateVIP(want core.VIPWish) (core.Port, error) {
	p, err := n.s.newPort(n.s.networks[n.s.subnets[want.FixedIPs[0].SubnetID].networkID], want.ProjectID, want.Name, want.FixedIPs, true)
	if err != nil {
		return core.Port{}, err
	}
	n.s.autoAddress(p)
	if g := n.s.defaultGroups[want.ProjectID]; g != nil {
		p.groups = []string{g.ID}
	}
	if want.Owner != "" {
		p.adminUp, p.owner = false, want.Owner
		n.s.setDevice(p, want.Device)
	}
	return n.view(p), nil
}

// servicesProject owns what services make for themselves; nobody has a role in it.
const servicesProject = "services"

func (n neighbors) Guard(portID, group string) string {
	p := n.s.ports[portID]
	if p == nil {
		return ""
	}
	g := n.s.newGroup(servicesProject, group)
	p.groups = []string{g.ID}
	p.Changed()
	return g.ID
}

func (n neighbors) Unguard(portID, groupID string) {
	if p := n.s.ports[portID]; p != nil {
		p.groups = slices.DeleteFunc(slices.Clone(p.groups), func(id string) bool { return id == groupID })
	}
	if g := n.s.groups[groupID]; g != nil {
		n.s.dropGroup(g)
	}
}

func (n neighbors) MarkFailed(portID string, failed []netip.Addr) {
	for _, f := range n.s.fipsByPort[portID] {
		f.failed = slices.Contains(failed, f.ip)
	}
}
