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
	publicSubnet, privateSubnet := s.subnetsOf(public.ID)[0], s.subnetsOf(private.ID)[0]
	publicSubnet.Name, publicSubnet.dhcp = "public-subnet", false
	privateSubnet.Name, privateSubnet.dns = "k8s-subnet", []string{"8.8.8.8"}
	r := &netRouter{Entity: s.newEntity(mine, "k8s-router"), adminUp: true, snat: true}
	s.routers[r.ID] = r
	r.gateway = s.seedRouterPort(r, public, "", "network:router_gateway", publicSubnet.next)
	r.ifaces = []*port{s.seedRouterPort(r, private, mine, "network:router_interface", privateSubnet.gateway)}
	s.defaults = Defaults{
		NetworkID: private.ID, SubnetID: privateSubnet.ID, ExternalNetworkID: public.ID, ExternalSubnetID: publicSubnet.ID,
		RouterID: r.ID, SecurityGroupID: s.defaultGroups[mine].ID,
	}
	return s
}

func (s *Neutron) seedDefaultGroup(project string) {
	g := s.newGroup(project, "default")
	g.Description = "Default security group"
	s.defaultGroups[project] = g
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		s.addRule(&securityRule{Entity: s.newEntity(project, ""), group: g, automatic: true, direction: "ingress", ethertype: ethertype, remoteGroup: &g.ID})
	}
}

// seedNet makes a network with one subnet whose first addresses stay unused.
func (s *Neutron) seedNet(name, project string, cidr netip.Prefix) *network {
	n := &network{Entity: s.newEntity(project, name), adminUp: true, portSecurity: true, mtu: 1442}
	n.Revision = 2
	s.networks[n.ID] = n
	sub := s.newSubnet(n, cidr, "", project)
	for range firstFree - 2 {
		sub.pools[0].first = sub.pools[0].first.Next()
	}
	sub.next = sub.pools[0].first
	return n
}

func (s *Neutron) seedRouterPort(r *netRouter, n *network, project, owner string, ip netip.Addr) *port {
	p := &port{Entity: s.newEntity(project, ""), networkID: n.ID, mac: s.newMAC(), adminUp: true, status: "ACTIVE", owner: owner}
	sub := s.subnetsOf(n.ID)[0]
	sub.used[ip] = p.ID
	p.fixed = []core.FixedIP{{SubnetID: sub.ID, IP: ip}}
	p.Revision = 2
	s.ports[p.ID] = p
	s.setDevice(p, r.ID)
	return p
}
