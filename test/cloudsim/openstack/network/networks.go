package network

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

func (s *Neutron) networkKind() *resource.Kind {
	return &resource.Kind{
		One: "network", Many: "networks", Path: "networks",
		Attrs: []resource.Attr{
			{"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"admin_state_up", resource.Boolean, "cu"}, {"shared", resource.Boolean, "cua"},
			{"router:external", resource.Boolean, "cua"}, {"port_security_enabled", resource.Boolean, "cu"}, {"mtu", resource.Any, "cu"},
			{"availability_zone_hints", resource.Any, "c"}, {"dns_domain", resource.Text, "cu"}, {"is_default", resource.Boolean, "cua"},
			{"provider:network_type", resource.Any, "cua"}, {"provider:physical_network", resource.Any, "cua"}, {"provider:segmentation_id", resource.Any, "cua"},
			{"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""}, {"status", resource.Any, ""}, {"subnets", resource.Any, ""},
		},
		Missing: resource.NotFound("NetworkNotFound", "Network %s could not be found."),
		All:     func() []resource.Item { return resource.ByID(s.networks) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.networks[id]; return x, is },
		View:    s.networkView,
		Visible: func(x resource.Item) bool { n := x.(*network); return n.external || n.shared },
		Create: func(c *core.Call, in dialect.Fields) (resource.Item, error) {
			n := &network{Entity: s.newEntity(owner(c, in), ""), adminUp: true, portSecurity: true, mtu: 1442}
			if err := setNetwork(n, in); err != nil {
				return nil, err
			}
			n.Changed()
			s.networks[n.ID] = n
			return n, nil
		},
		Update: func(_ *core.Call, x resource.Item, in dialect.Fields) error { return setNetwork(x.(*network), in) },
		Remove: func(_ *core.Call, x resource.Item) error { return s.deleteNetwork(x.(*network)) },
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
	n.Describe(in)
	n.adminUp = in.Boolean("admin_state_up", n.adminUp)
	n.shared = in.Boolean("shared", n.shared)
	n.external = in.Boolean("router:external", n.external)
	n.portSecurity = in.Boolean("port_security_enabled", n.portSecurity)
	return nil
}

func (s *Neutron) networkView(c *core.Call, x resource.Item) core.Object {
	n := x.(*network)
	subnets := []string{}
	for _, sub := range resource.BySeq(s.subnets) {
		if sub.networkID == n.ID {
			subnets = append(subnets, sub.ID)
		}
	}
	o := n.View(core.Object{
		"admin_state_up": n.adminUp, "mtu": n.mtu, "status": "ACTIVE", "subnets": subnets, "shared": n.shared,
		"availability_zone_hints": []string{}, "availability_zones": []string{}, "ipv4_address_scope": nil, "ipv6_address_scope": nil,
		"router:external": n.external, "port_security_enabled": n.portSecurity,
	})
	if n.external {
		o["is_default"] = false
	}
	if c.Admin() {
		o["provider:network_type"], o["provider:physical_network"], o["provider:segmentation_id"] = "geneve", nil, 1000+n.Seq
	}
	return o
}

// deleteNetwork deletes a network with its subnets unless ports are in the way.
func (s *Neutron) deleteNetwork(n *network) error {
	var inUse []string
	for _, p := range resource.BySeq(s.ports) {
		if p.networkID == n.ID {
			inUse = append(inUse, p.ID)
		}
	}
	if len(inUse) > 0 {
		return core.Errorf(http.StatusConflict, "NetworkInUse", "Unable to complete operation on network %s. There are one or more ports still in use on the network, id for these ports is: %s.",
			n.ID, strings.Join(inUse, ","))
	}
	for id, sub := range s.subnets {
		if sub.networkID == n.ID {
			delete(s.subnets, id)
		}
	}
	delete(s.networks, n.ID)
	return nil
}

func (s *Neutron) subnetKind() *resource.Kind {
	return &resource.Kind{
		One: "subnet", Many: "subnets", Path: "subnets",
		Attrs: []resource.Attr{
			{"network_id", resource.UUID, "c!"}, {"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"cidr", resource.Any, "c"}, {"ip_version", resource.Any, "c!"},
			{"gateway_ip", resource.Any, "cu"}, {"allocation_pools", resource.Any, "cu"}, {"dns_nameservers", resource.Any, "cu"},
			{"host_routes", resource.Any, "cu"}, {"enable_dhcp", resource.Boolean, "cu"}, {"subnetpool_id", resource.Any, "c"}, {"prefixlen", resource.Any, "c"},
			{"use_default_subnetpool", resource.Boolean, "c"}, {"ipv6_ra_mode", resource.Any, "c"}, {"ipv6_address_mode", resource.Any, "c"},
			{"service_types", resource.Any, "cu"}, {"dns_publish_fixed_ip", resource.Boolean, "cu"}, {"segment_id", resource.Any, "cu"},
			{"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""},
		},
		Missing: resource.NotFound("SubnetNotFound", "Subnet %s could not be found."),
		All:     func() []resource.Item { return resource.ByID(s.subnets) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.subnets[id]; return x, is },
		View:    subnetView,
		Visible: func(x resource.Item) bool {
			n := s.networks[x.(*subnet).networkID]
			return n.shared || n.external && !s.opts.HideExternalSubnets
		},
		Create: s.createSubnet,
		Update: func(_ *core.Call, x resource.Item, in dialect.Fields) error { return setSubnet(x.(*subnet), in) },
		Remove: func(_ *core.Call, x resource.Item) error { return s.deleteSubnet(x.(*subnet)) },
	}
}

func (s *Neutron) createSubnet(c *core.Call, in dialect.Fields) (resource.Item, error) {
	k := s.networkKind()
	x, err := k.Own(c, in.Text("network_id"))
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
		if other.networkID == n.ID && other.cidr.Overlaps(cidr) {
			return nil, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.", cidr, n.ID)
		}
	}
	sub := s.newSubnet(n, cidr, "", owner(c, in))
	if in.Null("gateway_ip") {
		sub.gateway, sub.pools = netip.Addr{}, []addressRange{{cidr.Addr().Next(), sub.pools[0].last}}
	}
	if err := setSubnet(sub, in); err != nil {
		delete(s.subnets, sub.ID)
		return nil, err
	}
	if err := sub.setModes(in); err != nil {
		delete(s.subnets, sub.ID)
		return nil, err
	}
	if sub.auto() {
		for _, p := range resource.BySeq(s.ports) {
			if p.networkID == n.ID && !strings.HasPrefix(p.owner, "network:router") {
				s.autoAddress(p)
			}
		}
	}
	n.Changed()
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
	sub.Describe(in)
	sub.dhcp = in.Boolean("enable_dhcp", sub.dhcp)
	return nil
}

func subnetView(_ *core.Call, x resource.Item) core.Object {
	sub := x.(*subnet)
	pools := []core.Object{}
	for _, p := range sub.pools {
		pools = append(pools, core.Object{"start": p.first.String(), "end": p.last.String()})
	}
	version := 4
	if sub.cidr.Addr().Is6() {
		version = 6
	}
	o := sub.View(core.Object{
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
		return core.Errorf(http.StatusConflict, "SubnetInUse", "Unable to complete operation on subnet %s: One or more ports have an IP allocation from this subnet.", sub.ID)
	}
	delete(s.subnets, sub.ID)
	if n := s.networks[sub.networkID]; n != nil {
		n.Changed()
	}
	return nil
}

// parseCIDR checks what Neutron takes as a CIDR for an attribute.
func parseCIDR(attribute, v string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return p, dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid CIDR.", attribute, v)
	}
	if p.Masked() != p {
		return p, dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a recognized CIDR, '%s' is recommended.", attribute, v, p.Masked())
	}
	return p, nil
}
