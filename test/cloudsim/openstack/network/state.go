package network

import (
	"net/netip"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

// Options are openstack.Options as far as they are Neutron's, and what it has of the others.
type Options struct {
	Trunks, HideExternalSubnets bool
	// Projects have default security groups; Own and Admin have networks.
	Projects   []string
	Own, Admin string
}

// Neutron is the simulated service.
type Neutron struct {
	*core.Cloud
	opts        Options
	forwardPort func(portID string) // is told of changed ports

	defaults Defaults
	seq      int // numbers objects in order of creation
	macs     int
	hidden   map[string]bool // extensions that are taken away, by alias

	networks map[string]*network
	subnets  map[string]*subnet
	ports    map[string]*port
	routers  map[string]*netRouter
	fips     map[string]*floatingIP
	groups   map[string]*securityGroup
	rules    map[string]*securityRule
	trunks   map[string]*trunk

	portsByDevice map[string][]*port
	fipsByPort    map[string][]*floatingIP
	// defaultGroups are the groups named default, by project.
	defaultGroups map[string]*securityGroup
}

type network struct {
	resource.Entity
	external, shared, adminUp, portSecurity bool
	mtu                                     int
}

type subnet struct {
	resource.Entity
	networkID string
	cidr      netip.Prefix
	gateway   netip.Addr // zero for none
	pools     []addressRange
	dhcp      bool
	dns       []string
	hosts     []hostRoute
	raMode    string                // ipv6_ra_mode, "" for none
	mode      string                // ipv6_address_mode, "" for none
	used      map[netip.Addr]string // address → port id
	next      netip.Addr            // where the search for a free address goes on
}

type addressRange struct{ first, last netip.Addr }

type hostRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

type port struct {
	resource.Entity
	networkID             string
	mac                   string
	adminUp, portSecurity bool
	status                string
	deviceID, owner       string
	host                  string
	fixed                 []core.FixedIP
	pairs                 []addressPair
	groups                []string
	trunk                 *trunk // of which it is the parent
	sub                   *trunk // of which it is a subport
}

type addressPair struct {
	MAC string `json:"mac_address"`
	IP  string `json:"ip_address"`
}

type netRouter struct {
	resource.Entity
	adminUp bool
	snat    bool
	gateway *port // nil without an external gateway
	ifaces  []*port
	routes  []hostRoute
}

type floatingIP struct {
	resource.Entity
	networkID string
	port      *port // its own port on the external network
	ip        netip.Addr
	target    *port // nil while it is not associated
	fixed     netip.Addr
	router    string
	failed    bool // its forwarding could not listen
}

type securityGroup struct {
	resource.Entity
	rules []*securityRule
}

type securityRule struct {
	resource.Entity
	group                *securityGroup
	automatic            bool // came with its group
	direction, ethertype string
	protocol             *string
	min, max             *int
	prefix, remoteGroup  *string
}

// newEntity makes the base of a new object.
func (s *Neutron) newEntity(project, name string) resource.Entity {
	s.seq++
	now := time.Now().UTC()
	return resource.Entity{ID: core.NewID(), Project: project, Name: name, Seq: s.seq, Created: now, Updated: now}
}

// Defaults returns the ids of what Start has made.
func (s *Neutron) Defaults() Defaults {
	s.Lock()
	defer s.Unlock()
	return s.defaults
}

// Snapshot adds what exists; the lock is held.
func (s *Neutron) Snapshot(out *core.Snapshot) {
	for _, n := range resource.BySeq(s.networks) {
		out.Networks = append(out.Networks, core.Item{ID: n.ID, Name: n.Name})
	}
	for _, n := range resource.BySeq(s.subnets) {
		out.Subnets = append(out.Subnets, core.Item{ID: n.ID, Name: n.Name, Info: n.cidr.String()})
	}
	for _, p := range resource.BySeq(s.ports) {
		out.Ports = append(out.Ports, core.Item{ID: p.ID, Name: p.Name, Info: p.owner + " " + joinAddrs(p.fixed)})
	}
	for _, r := range resource.BySeq(s.routers) {
		out.Routers = append(out.Routers, core.Item{ID: r.ID, Name: r.Name})
		for _, x := range r.routes {
			out.Routes = append(out.Routes, core.Item{ID: r.ID, Name: x.Destination + " via " + x.NextHop})
		}
	}
	for _, f := range resource.BySeq(s.fips) {
		out.FloatingIPs = append(out.FloatingIPs, core.Item{ID: f.ID, Name: f.ip.String(), Info: f.Description})
	}
	for _, g := range resource.BySeq(s.groups) {
		if s.defaultGroups[g.Project] == g {
			continue
		}
		out.SecurityGroups = append(out.SecurityGroups, core.Item{ID: g.ID, Name: g.Name, Info: g.Description})
		for _, r := range g.rules {
			out.SecurityGroupRules = append(out.SecurityGroupRules, core.Item{ID: r.ID, Name: g.Name, Info: r.text()})
		}
	}
}

func joinAddrs(ips []core.FixedIP) string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = ip.IP.String()
	}
	return strings.Join(out, ",")
}

// Defaults are the ids of what Start has made.
type Defaults struct {
	NetworkID, SubnetID, ExternalNetworkID, ExternalSubnetID, RouterID, SecurityGroupID string
}
