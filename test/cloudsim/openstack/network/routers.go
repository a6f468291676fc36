package network

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

func (s *Neutron) routerKind() *resource.Kind {
	return &resource.Kind{
		One: "router", Many: "routers", Path: "routers",
		Attrs: []resource.Attr{
			{"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"admin_state_up", resource.Boolean, "cu"}, {"external_gateway_info", resource.Any, "cu"},
			{"routes", resource.Any, "cu"}, {"availability_zone_hints", resource.Any, "c"}, {"distributed", resource.Boolean, "cua"}, {"ha", resource.Boolean, "cua"},
			{"flavor_id", resource.Any, "c"}, {"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""}, {"status", resource.Any, ""},
		},
		Missing: resource.NotFound("RouterNotFound", "Router %s could not be found"),
		All:     func() []resource.Item { return resource.ByID(s.routers) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.routers[id]; return x, is },
		View:    routerView,
		Create: func(c *core.Call, in dialect.Fields) (resource.Item, error) {
			r := &netRouter{Entity: s.newEntity(owner(c, in), ""), adminUp: true, snat: true}
			if err := s.setRouter(c, r, in); err != nil {
				return nil, err
			}
			s.routers[r.ID] = r
			return r, nil
		},
		Update: func(c *core.Call, x resource.Item, in dialect.Fields) error {
			return s.setRouter(c, x.(*netRouter), in)
		},
		Remove: func(_ *core.Call, x resource.Item) error { return s.deleteRouter(x.(*netRouter)) },
	}
}

func routerView(_ *core.Call, x resource.Item) core.Object {
	r := x.(*netRouter)
	o := r.View(core.Object{
		"admin_state_up": r.adminUp, "status": "ACTIVE", "external_gateway_info": nil,
		"availability_zones": []string{}, "availability_zone_hints": []string{}, "routes": append([]hostRoute{}, r.routes...),
	})
	if r.gateway != nil {
		ips := []core.Object{}
		for _, ip := range r.gateway.fixed {
			ips = append(ips, core.Object{"subnet_id": ip.SubnetID, "ip_address": ip.IP.String()})
		}
		o["external_gateway_info"] = core.Object{"network_id": r.gateway.networkID, "external_fixed_ips": ips, "enable_snat": r.snat}
	}
	return o
}

func (s *Neutron) setRouter(c *core.Call, r *netRouter, in dialect.Fields) error {
	if in.Has("external_gateway_info") {
		if err := s.setGateway(c, r, in["external_gateway_info"]); err != nil {
			return err
		}
	}
	if in.Has("routes") {
		routes, err := parseRoutes(in["routes"])
		if err != nil {
			return err
		}
		if err := s.checkRoutes(r, routes); err != nil {
			return err
		}
		r.routes = routes
	}
	r.Describe(in)
	r.adminUp = in.Boolean("admin_state_up", r.adminUp)
	return nil
}

// setGateway joins a router to an external network, or parts it from it.
func (s *Neutron) setGateway(c *core.Call, r *netRouter, raw json.RawMessage) error {
	var info struct {
		NetworkID string             `json:"network_id"`
		SNAT      *bool              `json:"enable_snat"`
		IPs       []core.FixedIPWish `json:"external_fixed_ips"`
	}
	if json.Unmarshal(raw, &info) != nil {
		return dialect.BadRequest("Invalid input for external_gateway_info. Reason: '%s' is not a dictionary.", dialect.Plain(raw))
	}
	if info.NetworkID == "" {
		return s.clearGateway(r)
	}
	x, err := s.networkKind().Find(c, info.NetworkID)
	if err != nil {
		return err
	}
	n := x.(*network)
	if !n.external {
		return core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: Network %s is not an external network.", n.ID)
	}
	if info.SNAT != nil {
		r.snat = *info.SNAT
	}
	if r.gateway != nil && r.gateway.networkID == n.ID && info.IPs == nil {
		return nil
	}
	if r.gateway != nil {
		if err := s.clearGateway(r); err != nil {
			return err
		}
	}
	p, err := s.newPort(n, "", "", info.IPs, info.IPs != nil)
	if err != nil {
		return err
	}
	p.owner, p.status = "network:router_gateway", "ACTIVE"
	s.setDevice(p, r.ID)
	r.gateway = p
	return nil
}

func (s *Neutron) clearGateway(r *netRouter) error {
	if r.gateway == nil {
		return nil
	}
	gateway := r.gateway
	r.gateway = nil
	if err := s.checkRoutes(r, r.routes); err != nil {
		r.gateway = gateway
		return err
	}
	for _, f := range s.fips {
		if f.router == r.ID {
			r.gateway = gateway
			return core.Errorf(http.StatusConflict, "RouterExternalGatewayInUseByFloatingIp", "Gateway cannot be updated for router %s, since a gateway to external network %s is required by one or more floating IPs.", r.ID, gateway.networkID)
		}
	}
	s.removePort(gateway)
	return nil
}

func (s *Neutron) deleteRouter(r *netRouter) error {
	if len(r.ifaces) > 0 {
		return core.Errorf(http.StatusConflict, "RouterInUse", "Router %s has ports still attached: %s", r.ID, r.ifaces[0].ID)
	}
	r.routes = nil
	if err := s.clearGateway(r); err != nil {
		return err
	}
	delete(s.routers, r.ID)
	return nil
}

// routerActions registers what is done to routers besides create, update and delete.
func (s *Neutron) routerActions(r *core.Router) {
	base := "PUT /v2.0/routers/{id}/"
	r.Handle(base+"add_router_interface", s.addInterface)
	r.Handle(base+"remove_router_interface", s.removeInterface)
	r.Handle(base+"add_extraroutes", s.needs("extraroute-atomic", func(c *core.Call) (*core.Reply, error) { return s.changeRoutes(c, addRoutes) }))
	r.Handle(base+"remove_extraroutes", s.needs("extraroute-atomic", func(c *core.Call) (*core.Reply, error) { return s.changeRoutes(c, removeRoutes) }))
}

func (s *Neutron) actedRouter(c *core.Call) (*netRouter, error) {
	x, err := s.routerKind().Own(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	return x.(*netRouter), nil
}

// interfaceWish is the body of add_router_interface and remove_router_interface.
type interfaceWish struct {
	SubnetID string `json:"subnet_id"`
	PortID   string `json:"port_id"`
}

func (s *Neutron) interfaceBody(c *core.Call) (*netRouter, interfaceWish, error) {
	var in interfaceWish
	r, err := s.actedRouter(c)
	if err != nil {
		return nil, in, err
	}
	bad := func(format string, args ...any) (*netRouter, interfaceWish, error) {
		return nil, in, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: "+format+".", args...)
	}
	if json.Unmarshal(c.Body, &in) != nil || in == (interfaceWish{}) {
		return bad("Either subnet_id or port_id must be specified")
	}
	for _, id := range []string{in.SubnetID, in.PortID} {
		if id != "" && !dialect.IsUUID(id) {
			return bad("'%s' is not a valid UUID", id)
		}
	}
	return r, in, nil
}

func (s *Neutron) addInterface(c *core.Call) (*core.Reply, error) {
	r, in, err := s.interfaceBody(c)
	if err != nil {
		return nil, err
	}
	if in.SubnetID != "" && in.PortID != "" {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: Cannot specify both subnet-id and port-id.")
	}
	p, err := s.interfacePort(c, r, in)
	if err != nil {
		return nil, err
	}
	p.owner, p.status, p.groups, p.portSecurity = "network:router_interface", "ACTIVE", nil, false
	s.setDevice(p, r.ID)
	p.Changed()
	r.ifaces = append(r.ifaces, p)
	return core.OK(interfaceView(r, p))
}

// interfacePort finds or makes the port of a new interface.
func (s *Neutron) interfacePort(c *core.Call, r *netRouter, in interfaceWish) (*port, error) {
	if in.PortID != "" {
		x, err := s.portKind().Own(c, in.PortID)
		if err != nil {
			return nil, err
		}
		p := x.(*port)
		if p.deviceID != "" {
			return nil, core.Errorf(http.StatusConflict, "PortInUse", "Unable to complete operation on port %s for network %s. Port already has an attached device %s.", p.ID, p.networkID, p.deviceID)
		}
		for _, ip := range p.fixed {
			if r.ifaceOn(ip.SubnetID) != nil {
				return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: Router already has a port on subnet %s.", ip.SubnetID)
			}
		}
		return p, nil
	}
	x, err := s.subnetKind().Own(c, in.SubnetID)
	if err != nil {
		return nil, err
	}
	sub := x.(*subnet)
	if r.ifaceOn(sub.ID) != nil {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: Router already has a port on subnet %s.", sub.ID)
	}
	if !sub.gateway.IsValid() {
		return nil, core.Errorf(http.StatusBadRequest, "BadRequest", "Bad router request: Subnet for router interface must have a gateway IP.")
	}
	return s.newPort(s.networks[sub.networkID], r.Project, "", []core.FixedIPWish{{SubnetID: sub.ID, IP: sub.gateway.String()}}, true)
}

func (r *netRouter) ifaceOn(subnetID string) *port {
	for _, p := range r.ifaces {
		if slices.ContainsFunc(p.fixed, func(ip core.FixedIP) bool { return ip.SubnetID == subnetID }) {
			return p
		}
	}
	return nil
}

func interfaceView(r *netRouter, p *port) core.Object {
	subnets := []string{}
	for _, ip := range p.fixed {
		subnets = append(subnets, ip.SubnetID)
	}
	return core.Object{"id": r.ID, "tenant_id": r.Project, "port_id": p.ID, "network_id": p.networkID, "subnet_id": subnets[0], "subnet_ids": subnets}
}

func (s *Neutron) removeInterface(c *core.Call) (*core.Reply, error) {
	r, in, err := s.interfaceBody(c)
	if err != nil {
		return nil, err
	}
	p := r.ifaceOn(in.SubnetID)
	if in.PortID != "" {
		if p = s.ports[in.PortID]; p == nil || !slices.Contains(r.ifaces, p) {
			return nil, core.Errorf(http.StatusNotFound, "RouterInterfaceNotFound", "Router %s does not have an interface with id %s", r.ID, in.PortID)
		}
	}
	if p == nil {
		return nil, core.Errorf(http.StatusNotFound, "RouterInterfaceNotFoundForSubnet", "Router %s has no interface on subnet %s", r.ID, in.SubnetID)
	}
	if err := s.interfaceInUse(r, p); err != nil {
		return nil, err
	}
	view := interfaceView(r, p)
	r.ifaces = slices.DeleteFunc(r.ifaces, func(x *port) bool { return x == p })
	s.removePort(p)
	return core.OK(view)
}

// interfaceInUse refuses to remove an interface that floating IPs or routes need.
func (s *Neutron) interfaceInUse(r *netRouter, p *port) error {
	for _, ip := range p.fixed {
		sub := s.subnets[ip.SubnetID]
		for _, f := range s.fips {
			if f.router == r.ID && f.target != nil && sub.cidr.Contains(f.fixed) {
				return core.Errorf(http.StatusConflict, "RouterInterfaceInUseByFloatingIP", "Router interface for subnet %s on router %s cannot be deleted, as it is required by one or more floating IPs.", sub.ID, r.ID)
			}
		}
		for _, route := range r.routes {
			if hop, err := netip.ParseAddr(route.NextHop); err == nil && sub.cidr.Contains(hop) {
				return core.Errorf(http.StatusConflict, "RouterInterfaceInUseByRoute", "Router interface for subnet %s on router %s cannot be deleted, as it is required by one or more routes.", sub.ID, r.ID)
			}
		}
	}
	return nil
}
