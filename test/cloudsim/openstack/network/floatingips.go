package network

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

func (s *Neutron) floatingIPKind() *resource.Kind {
	return &resource.Kind{
		One: "floatingip", Many: "floatingips", Path: "floatingips",
		Attrs: []resource.Attr{
			{"floating_network_id", resource.UUID, "c!"}, {"floating_ip_address", resource.Any, "ca"}, {"subnet_id", resource.UUIDOrNull, "c"},
			{"port_id", resource.UUIDOrNull, "cu"}, {"fixed_ip_address", resource.Any, "cu"}, {"description", resource.Text, "cu"}, {"router_id", resource.Any, ""},
			{"dns_name", resource.Text, "c"}, {"dns_domain", resource.Text, "c"}, {"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""}, {"status", resource.Any, ""},
		},
		Missing: resource.NotFound("FloatingIPNotFound", "Floating IP %s could not be found"),
		All:     func() []resource.Item { return resource.ByID(s.fips) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.fips[id]; return x, is },
		View:    s.floatingIPView,
		Create:  s.createFloatingIP,
		Update: func(c *core.Call, x resource.Item, in dialect.Fields) error {
			return s.updateFloatingIP(c, x.(*floatingIP), in)
		},
		Remove: func(_ *core.Call, x resource.Item) error {
			s.deleteFloatingIP(x.(*floatingIP))
			return nil
		},
	}
}

func (s *Neutron) floatingIPView(_ *core.Call, x resource.Item) core.Object {
	f := x.(*floatingIP)
	o := f.View(core.Object{
		"floating_ip_address": f.ip.String(), "floating_network_id": f.networkID, "router_id": nil, "port_id": nil,
		"fixed_ip_address": nil, "status": "DOWN", "port_details": nil, "dns_domain": "", "dns_name": "",
	})
	delete(o, "name") // floating IPs have none
	if p := f.target; p != nil {
		o["router_id"], o["port_id"], o["fixed_ip_address"], o["status"] = f.router, p.ID, f.fixed.String(), "ACTIVE"
		o["port_details"] = core.Object{
			"name": p.Name, "network_id": p.networkID, "mac_address": p.mac, "admin_state_up": p.adminUp,
			"status": p.status, "device_id": p.deviceID, "device_owner": p.owner,
		}
	}
	if f.failed {
		o["status"] = "ERROR"
	}
	return o
}

func (s *Neutron) createFloatingIP(c *core.Call, in dialect.Fields) (resource.Item, error) {
	x, err := s.networkKind().Find(c, in.Text("floating_network_id"))
	if err != nil {
		return nil, err
	}
	n := x.(*network)
	if !n.external {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network %s is not a valid external network.", n.ID)
	}
	var wishes []core.FixedIPWish
	if w := (core.FixedIPWish{SubnetID: in.Text("subnet_id"), IP: in.Text("floating_ip_address")}); w != (core.FixedIPWish{}) {
		wishes = []core.FixedIPWish{w}
	}
	p, err := s.newPort(n, "", "", wishes, wishes != nil)
	if err != nil {
		return nil, err
	}
	if len(p.fixed) == 0 {
		s.removePort(p)
		return nil, core.Errorf(http.StatusBadRequest, "ExternalIpAddressExhausted", "Unable to find any IP address on external network %s.", n.ID)
	}
	f := &floatingIP{Entity: s.newEntity(owner(c, in), ""), networkID: n.ID, port: p, ip: p.fixed[0].IP}
	p.owner, p.status, p.portSecurity = "network:floatingip", "N/A", false
	s.setDevice(p, f.ID)
	if err := s.updateFloatingIP(c, f, in); err != nil {
		s.removePort(p)
		return nil, err
	}
	s.fips[f.ID] = f
	return f, nil
}

func (s *Neutron) updateFloatingIP(c *core.Call, f *floatingIP, in dialect.Fields) error {
	if in.Has("port_id") {
		if err := s.associateAs(c, f, in); err != nil {
			return err
		}
	} else if !in.Null("fixed_ip_address") && in.Has("fixed_ip_address") {
		return core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: fixed_ip_address cannot be specified without a port_id.")
	}
	f.Describe(in)
	return nil
}

// associateAs associates a floating IP with the port that a body names, or with none.
func (s *Neutron) associateAs(c *core.Call, f *floatingIP, in dialect.Fields) error {
	if in.Null("port_id") {
		s.associate(f, nil, netip.Addr{})
		return nil
	}
	x, err := s.portKind().Find(c, in.Text("port_id"))
	if err != nil {
		return err
	}
	p := x.(*port)
	fixed, err := fixedForFloating(p, in)
	if err != nil {
		return err
	}
	router := s.routerBetween(fixed.SubnetID, f.networkID)
	if router == nil {
		return core.Errorf(http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound", "External network %s is not reachable from subnet %s.  Therefore, cannot associate Port %s with a Floating IP.", f.networkID, fixed.SubnetID, p.ID)
	}
	for _, other := range s.fipsByPort[p.ID] {
		if other != f && other.fixed == fixed.IP && other.networkID == f.networkID {
			return core.Errorf(http.StatusConflict, "FloatingIPPortAlreadyAssociated", "Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				f.ip, f.ID, p.ID, fixed.IP, f.networkID)
		}
	}
	s.associate(f, p, fixed.IP)
	f.router = router.ID
	return nil
}

// fixedForFloating picks the fixed IP that a floating IP shall lead to.
func fixedForFloating(p *port, in dialect.Fields) (core.FixedIP, error) {
	want := in.Text("fixed_ip_address")
	for _, ip := range p.fixed {
		if want == "" && ip.IP.Is4() || ip.IP.String() == want {
			return ip, nil
		}
	}
	if want != "" {
		return core.FixedIP{}, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Port %s does not have fixed ip %s.", p.ID, want)
	}
	return core.FixedIP{}, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.ID)
}

func (s *Neutron) routerBetween(subnetID, externalID string) *netRouter {
	for _, r := range resource.BySeq(s.routers) {
		if r.gateway != nil && r.gateway.networkID == externalID && r.ifaceOn(subnetID) != nil {
			return r
		}
	}
	return nil
}

// associate leads a floating IP to a port's address, or with a nil port to nowhere.
func (s *Neutron) associate(f *floatingIP, p *port, fixed netip.Addr) {
	var old *port
	if old = f.target; old != nil {
		left := slices.DeleteFunc(s.fipsByPort[old.ID], func(x *floatingIP) bool { return x == f })
		if s.fipsByPort[old.ID] = left; len(left) == 0 {
			delete(s.fipsByPort, old.ID)
		}
	}
	f.target, f.fixed, f.router, f.failed = p, fixed, "", false
	if p != nil {
		s.fipsByPort[p.ID] = append(s.fipsByPort[p.ID], f)
	}
	for _, x := range []*port{old, p} {
		if x != nil {
			s.forwardPort(x.ID)
		}
	}
}

func (s *Neutron) deleteFloatingIP(f *floatingIP) {
	s.associate(f, nil, netip.Addr{})
	s.removePort(f.port)
	delete(s.fips, f.ID)
}
