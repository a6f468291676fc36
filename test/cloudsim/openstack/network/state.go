package network

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
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

// entity is what all of Neutron's objects have.
type entity struct {
	id, project, name, description string

	seq              int
	tags             []string
	created, updated time.Time
	revision         int
}

// netItem is one of Neutron's objects.
type netItem interface{ base() *entity }

func (e *entity) base() *entity { return e }

// changed counts a revision.
func (e *entity) changed() {
	e.revision++
	e.updated = time.Now().UTC()
}

// view holds the attributes that all objects have.
func (e *entity) view(o core.Object) core.Object {
	tags := e.tags
	if tags == nil {
		tags = []string{}
	}
	o["id"], o["name"], o["description"] = e.id, e.name, e.description
	o["tenant_id"], o["project_id"], o["tags"] = e.project, e.project, tags
	o["created_at"], o["updated_at"] = netTime(e.created), netTime(e.updated)
	o["revision_number"] = e.revision
	return o
}

func netTime(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }

type network struct {
	entity
	external, shared, adminUp, portSecurity bool
	mtu                                     int
}

type subnet struct {
	entity
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
	entity
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
	entity
	adminUp bool
	snat    bool
	gateway *port // nil without an external gateway
	ifaces  []*port
	routes  []hostRoute
}

type floatingIP struct {
	entity
	networkID string
	port      *port // its own port on the external network
	ip        netip.Addr
	target    *port // nil while it is not associated
	fixed     netip.Addr
	router    string
	failed    bool // its forwarding could not listen
}

type securityGroup struct {
	entity
	rules []*securityRule
}

type securityRule struct {
	entity
	group                *securityGroup
	automatic            bool // came with its group
	direction, ethertype string
	protocol             *string
	min, max             *int
	prefix, remoteGroup  *string
}

// newEntity makes the base of a new object.
func (s *Neutron) newEntity(project, name string) entity {
	s.seq++
	now := time.Now().UTC()
	return entity{id: core.NewID(), project: project, name: name, seq: s.seq, created: now, updated: now}
}

// byID returns the items in order of id, as Neutron lists them.
func byID[T netItem](m map[string]T) []netItem {
	out := make([]netItem, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b netItem) int { return strings.Compare(a.base().id, b.base().id) })
	return out
}

// bySeq returns the items in order of creation.
func bySeq[T netItem](m map[string]T) []T {
	out := make([]T, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b T) int { return a.base().seq - b.base().seq })
	return out
}

// Defaults returns the ids of what Start has made.
func (s *Neutron) Defaults() Defaults {
	s.Lock()
	defer s.Unlock()
	return s.defaults
}

// Snapshot adds what exists; the lock is held.
func (s *Neutron) Snapshot(out *core.Snapshot) {
	for _, n := range bySeq(s.networks) {
		out.Networks = append(out.Networks, core.Item{ID: n.id, Name: n.name})
	}
	for _, n := range bySeq(s.subnets) {
		out.Subnets = append(out.Subnets, core.Item{ID: n.id, Name: n.name, Info: n.cidr.String()})
	}
	for _, p := range bySeq(s.ports) {
		out.Ports = append(out.Ports, core.Item{ID: p.id, Name: p.name, Info: p.owner + " " + joinAddrs(p.fixed)})
	}
	for _, r := range bySeq(s.routers) {
		out.Routers = append(out.Routers, core.Item{ID: r.id, Name: r.name})
		for _, x := range r.routes {
			out.Routes = append(out.Routes, core.Item{ID: r.id, Name: x.Destination + " via " + x.NextHop})
		}
	}
	for _, f := range bySeq(s.fips) {
		out.FloatingIPs = append(out.FloatingIPs, core.Item{ID: f.id, Name: f.ip.String(), Info: f.description})
	}
	for _, g := range bySeq(s.groups) {
		if s.defaultGroups[g.project] == g {
			continue
		}
		out.SecurityGroups = append(out.SecurityGroups, core.Item{ID: g.id, Name: g.name, Info: g.description})
		for _, r := range g.rules {
			out.SecurityGroupRules = append(out.SecurityGroupRules, core.Item{ID: r.id, Name: g.name, Info: r.text()})
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
