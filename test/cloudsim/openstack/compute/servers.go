package compute

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Server is a server as tests see it.
type Server struct {
	ID, Name, Zone, Flavor string
	// Status is Nova's: ACTIVE, SHUTOFF, …
	Status string
	// Addresses are the fixed addresses of its ports, FloatingIPs those associated with them.
	Addresses, FloatingIPs []netip.Addr
	// PortIDs are the ports in order of creation.
	PortIDs []string
	// Metadata is a copy.
	Metadata map[string]string
}

// Seed says which servers SeedServers makes.
type Seed struct {
	// Count is how many; their names are NamePrefix and a number from 0 on.
	Count      int
	NamePrefix string
	// Zones are used in turn, az1 when empty; unknown ones come into being.
	Zones []string
	// Flavor is a flavor's name, m1.small when empty; an unknown one comes into being.
	Flavor string
	// Metadata is every server's.
	Metadata map[string]string
}

// SeedServers makes ACTIVE servers of the project k8s, each with a port and an address on the
// private network. It returns fewer than asked for only when the network has no more addresses.
func (s *Nova) SeedServers(seed Seed) []Server {
	s.Lock()
	defer s.Unlock()
	if len(seed.Zones) == 0 {
		seed.Zones = s.Zones[:1]
	}
	for _, z := range seed.Zones {
		if !slices.Contains(s.Zones, z) {
			s.Zones = append(s.Zones, z)
		}
	}
	f := s.flavorNamed(seed.Flavor)
	out := make([]Server, 0, seed.Count)
	for i := range seed.Count {
		v := &server{
			id: core.NewID(), name: seed.NamePrefix + strconv.Itoa(i), projectID: s.owner.ProjectID, userID: s.owner.UserID, zone: seed.Zones[i%len(seed.Zones)],
			imageID: s.images[0].id, flavor: f, metadata: seed.Metadata,
		}
		if _, err := s.ports.Create(core.PortWish{DeviceID: v.id, Zone: v.zone, ProjectID: v.projectID}); err != nil {
			return out
		}
		s.register(v)
		v.vmState, v.launched = "active", v.created
		out = append(out, s.serverView(v))
	}
	return out
}

// flavorNamed returns the flavor, making it when there is none; lock held.
func (s *Nova) flavorNamed(name string) *flavor {
	if name == "" {
		name = "m1.small"
	}
	i := slices.IndexFunc(s.flavors, func(f *flavor) bool { return f.name == name })
	if i >= 0 {
		return s.flavors[i]
	}
	f := &flavor{id: core.NewID(), name: name, vcpus: 2, ram: 4096, disk: 20}
	s.flavors = append(s.flavors, f)
	return f
}

func (s *Nova) serverView(v *server) Server {
	out := Server{ID: v.id, Name: v.name, Zone: v.zone, Flavor: v.flavor.name, Status: v.status(), Metadata: maps.Clone(v.metadata)}
	for _, p := range s.ports.Of(v.id) {
		out.PortIDs = append(out.PortIDs, p.ID)
		for _, f := range p.FloatingIPs {
			out.FloatingIPs = append(out.FloatingIPs, f.IP)
		}
		for _, f := range p.FixedIPs {
			out.Addresses = append(out.Addresses, f.IP)
		}
	}
	return out
}

// Server returns the server with the id; false when there is none.
func (s *Nova) Server(id string) (Server, bool) {
	s.Lock()
	defer s.Unlock()
	v := s.byID[id]
	if v == nil {
		return Server{}, false
	}
	return s.serverView(v), true
}

// Servers returns all servers in order of creation.
func (s *Nova) Servers() []Server {
	s.Lock()
	defer s.Unlock()
	out := make([]Server, len(s.servers))
	for i, v := range s.servers {
		out[i] = s.serverView(v)
	}
	return out
}

// StopServer shuts a server down (SHUTOFF) at once; false when there is none.
func (s *Nova) StopServer(id string) bool { return s.setServerStatus(id, "SHUTOFF") }

// StartServer makes a server ACTIVE at once; false when there is none.
func (s *Nova) StartServer(id string) bool { return s.setServerStatus(id, "ACTIVE") }

// setServerStatus gives a server a status at once: ACTIVE, SHUTOFF, PAUSED, SUSPENDED,
// SHELVED_OFFLOADED, BUILD or ERROR. False when there is no such server or status.
func (s *Nova) setServerStatus(id, status string) bool {
	vmState, known := map[string]string{
		"ACTIVE": "active", "SHUTOFF": "stopped", "PAUSED": "paused", "SUSPENDED": "suspended",
		"SHELVED_OFFLOADED": "shelved_offloaded", "BUILD": "building", "ERROR": "error",
	}[strings.ToUpper(status)]
	s.Lock()
	defer s.Unlock()
	v := s.byID[id]
	if v == nil || !known {
		return false
	}
	s.setState(v, vmState)
	return true
}

// SetServerAccessIPs sets accessIPv4 and accessIPv6; false when there is no such server.
func (s *Nova) SetServerAccessIPs(id, v4, v6 string) bool {
	s.Lock()
	defer s.Unlock()
	v := s.byID[id]
	if v == nil {
		return false
	}
	v.accessIPv4, v.accessIPv6 = v4, v6
	return true
}

// DeleteServer removes a server and its ports at once; false when there is none.
func (s *Nova) DeleteServer(id string) bool {
	s.Lock()
	defer s.Unlock()
	v := s.byID[id]
	if v == nil {
		return false
	}
	s.remove(v)
	return true
}

// Snapshot adds what exists; the lock is held.
func (s *Nova) Snapshot(out *core.Snapshot) {
	for _, v := range s.servers {
		out.Servers = append(out.Servers, core.Item{ID: v.id, Name: v.name, Info: v.status()})
	}
}
