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

func (s *Neutron) portKind() *resource.Kind {
	return &resource.Kind{
		One: "port", Many: "ports", Path: "ports",
		Attrs: []resource.Attr{
			{"network_id", resource.UUID, "c!"}, {"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"admin_state_up", resource.Boolean, "cu"},
			{"fixed_ips", resource.Any, "cu"}, {"mac_address", resource.Any, "c"}, {"device_id", resource.Text, "cu"}, {"device_owner", resource.Text, "cu"},
			{"security_groups", resource.Any, "cu"}, {"allowed_address_pairs", resource.Any, "cu"}, {"port_security_enabled", resource.Boolean, "cu"},
			{"extra_dhcp_opts", resource.Any, "cu"}, {"binding:vnic_type", resource.Any, "cu"}, {"binding:host_id", resource.Text, "cua"},
			{"binding:profile", resource.Any, "cua"}, {"dns_name", resource.Text, "cu"}, {"dns_domain", resource.Text, "cu"}, {"numa_affinity_policy", resource.Any, "cu"},
			{"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""}, {"status", resource.Any, ""},
		},
		Missing: resource.NotFound("PortNotFound", "Port %s could not be found."),
		All:     func() []resource.Item { return resource.ByID(s.ports) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.ports[id]; return x, is },
		View:    portObject,
		Narrow:  s.narrowByDevice,
		Create:  s.createPort,
		Update:  func(_ *core.Call, x resource.Item, in dialect.Fields) error { return s.updatePort(x.(*port), in) },
		Remove: func(_ *core.Call, x resource.Item) error {
			p := x.(*port)
			if err := p.trunkGuard(); err != nil {
				return err
			}
			switch p.owner {
			case "network:router_interface", "network:router_gateway", "network:floatingip":
				return core.Errorf(http.StatusConflict, "ServicePortInUse", "Port %s cannot be deleted directly via the port API: has device owner %s.", p.ID, p.owner)
			}
			s.removePort(p)
			return nil
		},
	}
}

// narrowByDevice answers lists filtered by device_id from the index.
func (s *Neutron) narrowByDevice(c *core.Call) ([]resource.Item, bool) {
	ids := c.Query["device_id"]
	if len(ids) == 0 {
		return nil, false
	}
	found := map[string]*port{}
	for _, id := range ids {
		for _, p := range s.portsByDevice[id] {
			found[p.ID] = p
		}
	}
	return resource.ByID(found), true
}

func portObject(c *core.Call, x resource.Item) core.Object {
	p := x.(*port)
	ips := []core.Object{}
	for _, ip := range p.fixed {
		ips = append(ips, core.Object{"subnet_id": ip.SubnetID, "ip_address": ip.IP.String()})
	}
	o := p.View(core.Object{
		"network_id": p.networkID, "mac_address": p.mac, "admin_state_up": p.adminUp, "status": p.status,
		"device_id": p.deviceID, "device_owner": p.owner, "fixed_ips": ips, "allowed_address_pairs": append([]addressPair{}, p.pairs...),
		"extra_dhcp_opts": []any{}, "security_groups": append([]string{}, p.groups...), "binding:vnic_type": "normal",
		"port_security_enabled": p.portSecurity,
	})
	if t := p.trunk; t != nil {
		// Lists lack the subports' MAC addresses.
		o["trunk_details"] = core.Object{"trunk_id": t.ID, "sub_ports": t.subportViews(c.Request.PathValue("id") != "")}
	}
	if c.Admin() {
		vif, details := "unbound", core.Object{}
		if p.host != "" {
			vif, details = "ovs", core.Object{"port_filter": true, "connectivity": "l2"}
		}
		o["binding:host_id"], o["binding:profile"], o["binding:vif_type"], o["binding:vif_details"] = p.host, core.Object{}, vif, details
	}
	return o
}

// newPort makes a port and gives it addresses; lock held.
func (s *Neutron) newPort(n *network, project, name string, wishes []core.FixedIPWish, asked bool) (*port, error) {
	p := &port{Entity: s.newEntity(project, name), networkID: n.ID, mac: s.newMAC(), adminUp: true, portSecurity: n.portSecurity, status: "DOWN"}
	if err := s.allocate(p, wishes, asked); err != nil {
		return nil, err
	}
	p.Changed()
	s.ports[p.ID] = p
	return p, nil
}

func (s *Neutron) createPort(c *core.Call, in dialect.Fields) (resource.Item, error) {
	x, err := s.networkKind().Find(c, in.Text("network_id"))
	if err != nil {
		return nil, err
	}
	n := x.(*network)
	if !c.Sees(n.Project) && !n.shared {
		return nil, core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:create_port is disallowed by policy")
	}
	var wishes []core.FixedIPWish
	if err := in.Into("fixed_ips", &wishes); err != nil {
		return nil, err
	}
	project := owner(c, in)
	p, err := s.newPort(n, project, "", wishes, in.Has("fixed_ips") && !in.Null("fixed_ips"))
	if err != nil {
		return nil, err
	}
	if mac := in.Text("mac_address"); mac != "" {
		p.mac = mac
	}
	s.autoAddress(p)
	if g := s.defaultGroups[project]; g != nil && !in.Has("security_groups") && in.Boolean("port_security_enabled", n.portSecurity) {
		p.groups = []string{g.ID}
	}
	delete(in, "fixed_ips")
	if err := s.updatePort(p, in); err != nil {
		s.removePort(p)
		return nil, err
	}
	return p, nil
}

// updatePort applies a validated body to a port.
func (s *Neutron) updatePort(p *port, in dialect.Fields) error {
	groups, err := s.wishedGroups(p, in)
	if err != nil {
		return err
	}
	pairs, err := wishedPairs(p, in)
	if err != nil {
		return err
	}
	security := in.Boolean("port_security_enabled", p.portSecurity)
	if !security && len(pairs) > 0 {
		return core.Errorf(http.StatusConflict, "AddressPairAndPortSecurityRequired", "Port Security must be enabled in order to have allowed address pairs on a port.")
	}
	if !security && len(groups) > 0 {
		return core.Errorf(http.StatusConflict, "PortSecurityPortHasSecurityGroup", "Port has security group associated. Cannot disable port security or ip address until security group is removed.")
	}
	if in.Has("fixed_ips") {
		if err := s.reallocate(p, in); err != nil {
			return err
		}
	}
	p.Describe(in)
	p.groups, p.pairs, p.portSecurity = groups, pairs, security
	p.adminUp = in.Boolean("admin_state_up", p.adminUp)
	if in.Has("device_owner") {
		p.owner = in.Text("device_owner")
	}
	if in.Has("device_id") {
		s.setDevice(p, in.Text("device_id"))
	}
	if in.Has("binding:host_id") {
		p.host = in.Text("binding:host_id")
	}
	return nil
}

// reallocate changes a port's addresses; those it keeps stay allocated.
func (s *Neutron) reallocate(p *port, in dialect.Fields) error {
	var wishes []core.FixedIPWish
	if err := in.Into("fixed_ips", &wishes); err != nil {
		return err
	}
	old := p.fixed
	s.release(old)
	if err := s.allocate(p, wishes, true); err != nil {
		for _, ip := range old {
			if sub := s.subnets[ip.SubnetID]; sub != nil {
				sub.used[ip.IP] = p.ID
			}
		}
		p.fixed = old
		return err
	}
	return nil
}

func (s *Neutron) wishedGroups(p *port, in dialect.Fields) ([]string, error) {
	if !in.Has("security_groups") {
		return p.groups, nil
	}
	var ids []string
	if err := in.Into("security_groups", &ids); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if s.groups[id] == nil {
			return nil, core.Errorf(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
		}
	}
	return ids, nil
}

func wishedPairs(p *port, in dialect.Fields) ([]addressPair, error) {
	if !in.Has("allowed_address_pairs") {
		return p.pairs, nil
	}
	if in.Null("allowed_address_pairs") {
		return nil, nil
	}
	var raw []struct {
		IP  *string `json:"ip_address"`
		MAC *string `json:"mac_address"`
	}
	if json.Unmarshal(in["allowed_address_pairs"], &raw) != nil {
		return nil, dialect.BadRequest("Allowed address pairs must be a list.")
	}
	var out []addressPair
	for _, r := range raw {
		if r.IP == nil {
			return nil, core.Errorf(http.StatusBadRequest, "AllowedAddressPairsMissingIP", "AllowedAddressPair must contain ip_address")
		}
		_, errIP := netip.ParseAddr(*r.IP)
		_, errNet := netip.ParsePrefix(*r.IP)
		if errIP != nil && errNet != nil {
			return nil, dialect.BadRequest("'%s' is not a valid IP address", *r.IP)
		}
		pair, mac := addressPair{MAC: p.mac, IP: *r.IP}, "None"
		if r.MAC != nil {
			pair.MAC, mac = *r.MAC, *r.MAC
		}
		if slices.Contains(out, pair) {
			return nil, core.Errorf(http.StatusBadRequest, "DuplicateAddressPairInRequest", "Request contains duplicate address pair: mac_address %s ip_address %s.", mac, pair.IP)
		}
		out = append(out, pair)
	}
	return out, nil
}

// setDevice keeps the index of ports by device right.
func (s *Neutron) setDevice(p *port, deviceID string) {
	if p.deviceID == deviceID {
		return
	}
	s.unindexDevice(p)
	if p.deviceID = deviceID; deviceID != "" {
		s.portsByDevice[deviceID] = append(s.portsByDevice[deviceID], p)
	}
}

func (s *Neutron) unindexDevice(p *port) {
	left := slices.DeleteFunc(s.portsByDevice[p.deviceID], func(x *port) bool { return x == p })
	if len(left) == 0 {
		delete(s.portsByDevice, p.deviceID)
		return
	}
	s.portsByDevice[p.deviceID] = left
}

// removePort deletes a port; its floating IPs become free.
func (s *Neutron) removePort(p *port) {
	for _, f := range slices.Clone(s.fipsByPort[p.ID]) {
		s.associate(f, nil, netip.Addr{})
		f.Changed()
	}
	s.dropTrunks(p)
	s.release(p.fixed)
	s.unindexDevice(p)
	delete(s.ports, p.ID)
	s.forwardPort(p.ID)
}
