package openstack

import "net/netip"

// seedNetwork makes what every simulator starts with: a default security group for each
// project, an external and a private network, and a router between them. mu need not be held.
func (s *Sim) seedNetwork() {
	st := &s.network
	st.networks, st.subnets, st.ports, st.routers = map[string]*network{}, map[string]*subnet{}, map[string]*port{}, map[string]*netRouter{}
	st.fips, st.groups, st.rules = map[string]*floatingIP{}, map[string]*securityGroup{}, map[string]*securityRule{}
	st.trunks = map[string]*trunk{}
	st.portsByDevice, st.fipsByPort, st.defaultGroups = map[string][]*port{}, map[string][]*floatingIP{}, map[string]*securityGroup{}
	projects := map[string]string{}
	for _, p := range s.identity.projects {
		projects[p.name] = p.id
		s.seedDefaultGroup(p.id)
	}
	mine := projects[ProjectName]
	public := s.seedNet("public", projects[AdminName], s.addrs.floating)
	public.external = true
	private := s.seedNet("k8s-net", mine, s.addrs.tenant)
	publicSubnet, privateSubnet := s.subnetsOf(public.id)[0], s.subnetsOf(private.id)[0]
	publicSubnet.name, publicSubnet.dhcp = "public-subnet", false
	privateSubnet.name, privateSubnet.dns = "k8s-subnet", []string{"8.8.8.8"}
	r := &netRouter{entity: s.newEntity(mine, "k8s-router"), adminUp: true, snat: true}
	st.routers[r.id] = r
	r.gateway = s.seedRouterPort(r, public, "", "network:router_gateway", publicSubnet.next)
	r.ifaces = []*port{s.seedRouterPort(r, private, mine, "network:router_interface", privateSubnet.gateway)}
	st.defaults = Defaults{
		NetworkID: private.id, SubnetID: privateSubnet.id, ExternalNetworkID: public.id, ExternalSubnetID: publicSubnet.id,
		RouterID: r.id, SecurityGroupID: st.defaultGroups[mine].id,
	}
}

func (s *Sim) seedDefaultGroup(project string) {
	g := s.newGroup(project, "default")
	g.description = "Default security group"
	s.network.defaultGroups[project] = g
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		s.addRule(&securityRule{entity: s.newEntity(project, ""), group: g, automatic: true, direction: "ingress", ethertype: ethertype, remoteGroup: &g.id})
	}
}

// seedNet makes a network with one subnet whose first addresses stay unused.
func (s *Sim) seedNet(name, project string, cidr netip.Prefix) *network {
	n := &network{entity: s.newEntity(project, name), adminUp: true, portSecurity: true, mtu: 1442}
	n.revision = 2
	s.network.networks[n.id] = n
	sub := s.newSubnet(n, cidr, "", project)
	for range firstFree - 2 {
		sub.pools[0].first = sub.pools[0].first.Next()
	}
	sub.next = sub.pools[0].first
	return n
}

func (s *Sim) seedRouterPort(r *netRouter, n *network, project, owner string, ip netip.Addr) *port {
	p := &port{entity: s.newEntity(project, ""), networkID: n.id, mac: s.newMAC(), adminUp: true, status: "ACTIVE", owner: owner}
	sub := s.subnetsOf(n.id)[0]
	sub.used[ip] = p.id
	p.fixed = []fixedIP{{sub.id, ip}}
	p.revision = 2
	s.network.ports[p.id] = p
	s.setDevice(p, r.id)
	return p
}
