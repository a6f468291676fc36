package network

import (
	"net/netip"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// New makes Neutron with what every simulator starts with: a default security group for each
// project, an external and a private network, and a router between them.
func New(cloud *core.Cloud, opts Options) *Neutron {
	s := &Neutron{Cloud: cloud, opts: opts, forwardPort: func(string) {}}
	s.networks, s.subnets, s.ports, s.routers = map[string]*network{}, map[string]*subnet{}, map[string]*port{}, map[string]*netRouter{}
	s.fips, s.groups, s.rules = map[string]*floatingIP{}, map[string]*securityGroup{}, map[string]*securityRule{}
	s.trunks = map[string]*trunk{}
	s.portsByDevice, s.fipsByPort, s.defaultGroups = map[string][]*port{}, map[string][]*floatingIP{}, map[string]*securityGroup{}
	for _, id := range opts.Projects {
		s.seedDefaultGroup(id)
	}
	mine := opts.Own
	public := s.seedNet("public", opts.Admin, cloud.Floating)
	public.external = true
	private := s.seedNet("k8s-net", mine, cloud.Tenant)
	publicSubnet, privateSubnet := s.subnetsOf(public.id)[0], s.subnetsOf(private.id)[0]
	publicSubnet.name, publicSubnet.dhcp = "public-subnet", false
	privateSubnet.name, privateSubnet.dns = "k8s-subnet", []string{"8.8.8.8"}
	r := &netRouter{entity: s.newEntity(mine, "k8s-router"), adminUp: true, snat: true}
	s.routers[r.id] = r
	r.gateway = s.seedRouterPort(r, public, "", "network:router_gateway", publicSubnet.next)
	r.ifaces = []*port{s.seedRouterPort(r, private, mine, "network:router_interface", privateSubnet.gateway)}
	s.defaults = Defaults{
		NetworkID: private.id, SubnetID: privateSubnet.id, ExternalNetworkID: public.id, ExternalSubnetID: publicSubnet.id,
		RouterID: r.id, SecurityGroupID: s.defaultGroups[mine].id,
	}
	return s
}

func (s *Neutron) seedDefaultGroup(project string) {
	g := s.newGroup(project, "default")
	g.description = "Default security group"
	s.defaultGroups[project] = g
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		s.addRule(&securityRule{entity: s.newEntity(project, ""), group: g, automatic: true, direction: "ingress", ethertype: ethertype, remoteGroup: &g.id})
	}
}

// seedNet makes a network with one subnet whose first addresses stay unused.
func (s *Neutron) seedNet(name, project string, cidr netip.Prefix) *network {
	n := &network{entity: s.newEntity(project, name), adminUp: true, portSecurity: true, mtu: 1442}
	n.revision = 2
	s.networks[n.id] = n
	sub := s.newSubnet(n, cidr, "", project)
	for range firstFree - 2 {
		sub.pools[0].first = sub.pools[0].first.Next()
	}
	sub.next = sub.pools[0].first
	return n
}

func (s *Neutron) seedRouterPort(r *netRouter, n *network, project, owner string, ip netip.Addr) *port {
	p := &port{entity: s.newEntity(project, ""), networkID: n.id, mac: s.newMAC(), adminUp: true, status: "ACTIVE", owner: owner}
	sub := s.subnetsOf(n.id)[0]
	sub.used[ip] = p.id
	p.fixed = []core.FixedIP{{SubnetID: sub.id, IP: ip}}
	p.revision = 2
	s.ports[p.id] = p
	s.setDevice(p, r.id)
	return p
}
