package network

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

func (s *Neutron) floatingIPKind() *netKind {
	return &netKind{
		one: "floatingip", many: "floatingips", path: "floatingips",
		attrs: []attr{
			{"floating_network_id", uuidValue, "c!"}, {"floating_ip_address", anyValue, "ca"}, {"subnet_id", uuidOrNull, "c"},
			{"port_id", uuidOrNull, "cu"}, {"fixed_ip_address", anyValue, "cu"}, {"description", text, "cu"}, {"router_id", anyValue, ""},
			{"dns_name", text, "c"}, {"dns_domain", text, "c"}, {"tenant_id", text, "c"}, {"project_id", text, "c"}, {"id", anyValue, ""}, {"status", anyValue, ""},
		},
		missing: notFoundAs("FloatingIPNotFound", "Floating IP %s could not be found"),
		all:     func() []netItem { return byID(s.fips) },
		get:     func(id string) (netItem, bool) { x, is := s.fips[id]; return x, is },
		view:    s.floatingIPView,
		create:  s.createFloatingIP,
		update: func(c *core.Call, x netItem, in dialect.Fields) error {
			return s.updateFloatingIP(c, x.(*floatingIP), in)
		},
		remove: func(_ *core.Call, x netItem) error {
			s.deleteFloatingIP(x.(*floatingIP))
			return nil
		},
	}
}

func (s *Neutron) floatingIPView(_ *core.Call, x netItem) core.Object {
	f := x.(*floatingIP)
	o := f.view(core.Object{
		"floating_ip_address": f.ip.String(), "floating_network_id": f.networkID, "router_id": nil, "port_id": nil,
		"fixed_ip_address": nil, "status": "DOWN", "port_details": nil, "dns_domain": "", "dns_name": "",
	})
	delete(o, "name") // floating IPs have none
	if p := f.target; p != nil {
		o["router_id"], o["port_id"], o["fixed_ip_address"], o["status"] = f.router, p.id, f.fixed.String(), "ACTIVE"
		o["port_details"] = core.Object{
			"name": p.name, "network_id": p.networkID, "mac_address": p.mac, "admin_state_up": p.adminUp,
			"status": p.status, "device_id": p.deviceID, "device_owner": p.owner,
		}
	}
	if f.failed {
		o["status"] = "ERROR"
	}
	return o
}

func (s *Neutron) createFloatingIP(c *core.Call, in dialect.Fields) (netItem, error) {
	x, err := s.networkKind().find(c, in.Text("floating_network_id"))
	if err != nil {
		return nil, err
	}
	n := x.(*network)
	if !n.external {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network %s is not a valid external network.", n.id)
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
		return nil, core.Errorf(http.StatusBadRequest, "ExternalIpAddressExhausted", "Unable to find any IP address on external network %s.", n.id)
	}
	f := &floatingIP{entity: s.newEntity(owner(c, in), ""), networkID: n.id, port: p, ip: p.fixed[0].IP}
	p.owner, p.status, p.portSecurity = "network:floatingip", "N/A", false
	s.setDevice(p, f.id)
	if err := s.updateFloatingIP(c, f, in); err != nil {
		s.removePort(p)
		return nil, err
	}
	s.fips[f.id] = f
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
	f.describe(in)
	return nil
}

// associateAs associates a floating IP with the port that a body names, or with none.
func (s *Neutron) associateAs(c *core.Call, f *floatingIP, in dialect.Fields) error {
	if in.Null("port_id") {
		s.associate(f, nil, netip.Addr{})
		return nil
	}
	x, err := s.portKind().find(c, in.Text("port_id"))
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
		return core.Errorf(http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound", "External network %s is not reachable from subnet %s.  Therefore, cannot associate Port %s with a Floating IP.", f.networkID, fixed.SubnetID, p.id)
	}
	for _, other := range s.fipsByPort[p.id] {
		if other != f && other.fixed == fixed.IP && other.networkID == f.networkID {
			return core.Errorf(http.StatusConflict, "FloatingIPPortAlreadyAssociated", "Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				f.ip, f.id, p.id, fixed.IP, f.networkID)
		}
	}
	s.associate(f, p, fixed.IP)
	f.router = router.id
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
		return core.FixedIP{}, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Port %s does not have fixed ip %s.", p.id, want)
	}
	return core.FixedIP{}, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.id)
}

func (s *Neutron) routerBetween(subnetID, externalID string) *netRouter {
	for _, r := range bySeq(s.routers) {
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
		left := slices.DeleteFunc(s.fipsByPort[old.id], func(x *floatingIP) bool { return x == f })
		if s.fipsByPort[old.id] = left; len(left) == 0 {
			delete(s.fipsByPort, old.id)
		}
	}
	f.target, f.fixed, f.router, f.failed = p, fixed, "", false
	if p != nil {
		s.fipsByPort[p.id] = append(s.fipsByPort[p.id], f)
	}
	for _, x := range []*port{old, p} {
		if x != nil {
			s.forwardPort(x.id)
		}
	}
}

func (s *Neutron) deleteFloatingIP(f *floatingIP) {
	s.associate(f, nil, netip.Addr{})
	s.removePort(f.port)
	delete(s.fips, f.id)
}
