package network

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

func (s *Neutron) networkKind() *netKind {
	return &netKind{
		one: "network", many: "networks", path: "networks",
		attrs: []attr{
			{"name", text, "cu"}, {"description", text, "cu"}, {"admin_state_up", boolean, "cu"}, {"shared", boolean, "cua"},
			{"router:external", boolean, "cua"}, {"port_security_enabled", boolean, "cu"}, {"mtu", anyValue, "cu"},
			{"availability_zone_hints", anyValue, "c"}, {"dns_domain", text, "cu"}, {"is_default", boolean, "cua"},
			{"provider:network_type", anyValue, "cua"}, {"provider:physical_network", anyValue, "cua"}, {"provider:segmentation_id", anyValue, "cua"},
			{"tenant_id", text, "c"}, {"project_id", text, "c"}, {"id", anyValue, ""}, {"status", anyValue, ""}, {"subnets", anyValue, ""},
		},
		missing: notFoundAs("NetworkNotFound", "Network %s could not be found."),
		all:     func() []netItem { return byID(s.networks) },
		get:     func(id string) (netItem, bool) { x, is := s.networks[id]; return x, is },
		view:    s.networkView,
		visible: func(x netItem) bool { n := x.(*network); return n.external || n.shared },
		create: func(c *core.Call, in dialect.Fields) (netItem, error) {
			n := &network{entity: s.newEntity(owner(c, in), ""), adminUp: true, portSecurity: true, mtu: 1442}
			if err := setNetwork(n, in); err != nil {
				return nil, err
			}
			n.changed()
			s.networks[n.id] = n
			return n, nil
		},
		update: func(_ *core.Call, x netItem, in dialect.Fields) error { return setNetwork(x.(*network), in) },
		remove: func(_ *core.Call, x netItem) error { return s.deleteNetwork(x.(*network)) },
	}
}

// owner is the project of an object that a body creates.
func owner(c *core.Call, in dialect.Fields) string {
	for _, name := range []string{"project_id", "tenant_id"} {
		if v := in.Text(name); v != "" {
			return v
		}
	}
	return c.Project()
}

func setNetwork(n *network, in dialect.Fields) error {
	if err := in.Into("mtu", &n.mtu); err != nil {
		return err
	}
	n.describe(in)
	n.adminUp = in.Boolean("admin_state_up", n.adminUp)
	n.shared = in.Boolean("shared", n.shared)
	n.external = in.Boolean("router:external", n.external)
	n.portSecurity = in.Boolean("port_security_enabled", n.portSecurity)
	return nil
}

func (s *Neutron) networkView(c *core.Call, x netItem) core.Object {
	n := x.(*network)
	subnets := []string{}
	for _, sub := range bySeq(s.subnets) {
		if sub.networkID == n.id {
			subnets = append(subnets, sub.id)
		}
	}
	o := n.view(core.Object{
		"admin_state_up": n.adminUp, "mtu": n.mtu, "status": "ACTIVE", "subnets": subnets, "shared": n.shared,
		"availability_zone_hints": []string{}, "availability_zones": []string{}, "ipv4_address_scope": nil, "ipv6_address_scope": nil,
		"router:external": n.external, "port_security_enabled": n.portSecurity,
	})
	if n.external {
		o["is_default"] = false
	}
	if c.Admin() {
		o["provider:network_type"], o["provider:physical_network"], o["provider:segmentation_id"] = "geneve", nil, 1000+n.seq
	}
	return o
}

// deleteNetwork deletes a network with its subnets unless ports are in the way.
func (s *Neutron) deleteNetwork(n *network) error {
	var inUse []string
	for _, p := range bySeq(s.ports) {
		if p.networkID == n.id {
			inUse = append(inUse, p.id)
		}
	}
	if len(inUse) > 0 {
		return core.Errorf(http.StatusConflict, "NetworkInUse", "Unable to complete operation on network %s. There are one or more ports still in use on the network, id for these ports is: %s.",
			n.id, strings.Join(inUse, ","))
	}
	for id, sub := range s.subnets {
		if sub.networkID == n.id {
			delete(s.subnets, id)
		}
	}
	delete(s.networks, n.id)
	return nil
}

func (s *Neutron) subnetKind() *netKind {
	return &netKind{
		one: "subnet", many: "subnets", path: "subnets",
		attrs: []attr{
			{"network_id", uuidValue, "c!"}, {"name", text, "cu"}, {"description", text, "cu"}, {"cidr", anyValue, "c"}, {"ip_version", anyValue, "c!"},
			{"gateway_ip", anyValue, "cu"}, {"allocation_pools", anyValue, "cu"}, {"dns_nameservers", anyValue, "cu"},
			{"host_routes", anyValue, "cu"}, {"enable_dhcp", boolean, "cu"}, {"subnetpool_id", anyValue, "c"}, {"prefixlen", anyValue, "c"},
			{"use_default_subnetpool", boolean, "c"}, {"ipv6_ra_mode", anyValue, "c"}, {"ipv6_address_mode", anyValue, "c"},
			{"service_types", anyValue, "cu"}, {"dns_publish_fixed_ip", boolean, "cu"}, {"segment_id", anyValue, "cu"},
			{"tenant_id", text, "c"}, {"project_id", text, "c"}, {"id", anyValue, ""},
		},
		missing: notFoundAs("SubnetNotFound", "Subnet %s could not be found."),
		all:     func() []netItem { return byID(s.subnets) },
		get:     func(id string) (netItem, bool) { x, is := s.subnets[id]; return x, is },
		view:    subnetView,
		visible: func(x netItem) bool {
			n := s.networks[x.(*subnet).networkID]
			return n.shared || n.external && !s.opts.HideExternalSubnets
		},
		create: s.createSubnet,
		update: func(_ *core.Call, x netItem, in dialect.Fields) error { return setSubnet(x.(*subnet), in) },
		remove: func(_ *core.Call, x netItem) error { return s.deleteSubnet(x.(*subnet)) },
	}
}

func (s *Neutron) createSubnet(c *core.Call, in dialect.Fields) (netItem, error) {
	k := s.networkKind()
	x, err := k.own(c, in.Text("network_id"))
	if err != nil {
		return nil, err
	}
	n := x.(*network)
	if !in.Has("cidr") || in.Null("cidr") {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
	}
	cidr, err := netip.ParsePrefix(in.Text("cidr"))
	if err != nil {
		return nil, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: %s is not in a CIDR format.", in.Text("cidr"))
	}
	cidr = cidr.Masked()
	if version := in.Number("ip_version", 4); (version == 6) != cidr.Addr().Is6() {
		return nil, invalidInput("cidr '%s' does not match the ip_version '%d'.", cidr, version)
	}
	for _, other := range s.subnets {
		if other.networkID == n.id && other.cidr.Overlaps(cidr) {
			return nil, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.", cidr, n.id)
		}
	}
	sub := s.newSubnet(n, cidr, "", owner(c, in))
	if in.Null("gateway_ip") {
		sub.gateway, sub.pools = netip.Addr{}, []addressRange{{cidr.Addr().Next(), sub.pools[0].last}}
	}
	if err := setSubnet(sub, in); err != nil {
		delete(s.subnets, sub.id)
		return nil, err
	}
	if err := sub.setModes(in); err != nil {
		delete(s.subnets, sub.id)
		return nil, err
	}
	if sub.auto() {
		for _, p := range bySeq(s.ports) {
			if p.networkID == n.id && !strings.HasPrefix(p.owner, "network:router") {
				s.autoAddress(p)
			}
		}
	}
	n.changed()
	return sub, nil
}

// setModes sets how hosts of an IPv6 subnet get their addresses.
func (sub *subnet) setModes(in dialect.Fields) error {
	for name, to := range map[string]*string{"ipv6_ra_mode": &sub.raMode, "ipv6_address_mode": &sub.mode} {
		if !in.Given(name) {
			continue
		}
		*to = in.Text(name)
		if !slices.Contains([]string{"dhcpv6-stateful", "dhcpv6-stateless", "slaac"}, *to) {
			return dialect.BadRequest("Invalid input for %s. Reason: %s is not in valid_values.", name, dialect.Plain(in[name]))
		}
		if sub.cidr.Addr().Is4() {
			return invalidInput("ipv6_ra_mode or ipv6_address_mode are not valid when ip_version is 4.")
		}
	}
	if sub.raMode != "" && sub.mode != "" && sub.raMode != sub.mode {
		return invalidInput("ipv6_ra_mode set to '%s' with ipv6_address_mode set to '%s' is not valid. If both attributes are set, they must be the same value.", sub.raMode, sub.mode)
	}
	return nil
}

// orNull is nil for an empty text.
func orNull(v string) any {
	if v == "" {
		return nil
	}
	return v
}

func setSubnet(sub *subnet, in dialect.Fields) error {
	var pools []struct{ Start, End netip.Addr }
	if err := in.Into("allocation_pools", &pools); err != nil {
		return err
	}
	for _, p := range pools {
		if !sub.cidr.Contains(p.Start) || !sub.cidr.Contains(p.End) || p.End.Less(p.Start) {
			return core.Errorf(http.StatusBadRequest, "OutOfBoundsAllocationPool", "The allocation pool %s-%s spans beyond the subnet cidr %s.", p.Start, p.End, sub.cidr)
		}
	}
	var dns []string
	var hosts []hostRoute
	if err := in.Into("dns_nameservers", &dns); err != nil {
		return err
	}
	if err := in.Into("host_routes", &hosts); err != nil {
		return err
	}
	if err := in.Into("gateway_ip", &sub.gateway); err != nil {
		return err
	}
	if in.Has("allocation_pools") && len(pools) > 0 {
		sub.pools = nil
		for _, p := range pools {
			sub.pools = append(sub.pools, addressRange{p.Start, p.End})
		}
		sub.next = sub.pools[0].first
	}
	if in.Has("dns_nameservers") {
		sub.dns = dns
	}
	if in.Has("host_routes") {
		sub.hosts = hosts
	}
	sub.describe(in)
	sub.dhcp = in.Boolean("enable_dhcp", sub.dhcp)
	return nil
}

func subnetView(_ *core.Call, x netItem) core.Object {
	sub := x.(*subnet)
	pools := []core.Object{}
	for _, p := range sub.pools {
		pools = append(pools, core.Object{"start": p.first.String(), "end": p.last.String()})
	}
	version := 4
	if sub.cidr.Addr().Is6() {
		version = 6
	}
	o := sub.view(core.Object{
		"network_id": sub.networkID, "ip_version": version, "subnetpool_id": nil, "enable_dhcp": sub.dhcp,
		"ipv6_ra_mode": orNull(sub.raMode), "ipv6_address_mode": orNull(sub.mode), "gateway_ip": nil, "cidr": sub.cidr.String(), "allocation_pools": pools,
		"host_routes": append([]hostRoute{}, sub.hosts...), "dns_nameservers": append([]string{}, sub.dns...), "service_types": []string{},
	})
	if sub.gateway.IsValid() {
		o["gateway_ip"] = sub.gateway.String()
	}
	return o
}

func (s *Neutron) deleteSubnet(sub *subnet) error {
	if len(sub.used) > 0 {
		return core.Errorf(http.StatusConflict, "SubnetInUse", "Unable to complete operation on subnet %s: One or more ports have an IP allocation from this subnet.", sub.id)
	}
	delete(s.subnets, sub.id)
	if n := s.networks[sub.networkID]; n != nil {
		n.changed()
	}
	return nil
}
