package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

func (s *Sim) portKind() *netKind {
	st := &s.network
	return &netKind{
		one: "port", many: "ports", path: "ports",
		attrs: []attr{
			{"network_id", uuidValue, "c!"}, {"name", text, "cu"}, {"description", text, "cu"}, {"admin_state_up", boolean, "cu"},
			{"fixed_ips", anyValue, "cu"}, {"mac_address", anyValue, "c"}, {"device_id", text, "cu"}, {"device_owner", text, "cu"},
			{"security_groups", anyValue, "cu"}, {"allowed_address_pairs", anyValue, "cu"}, {"port_security_enabled", boolean, "cu"},
			{"extra_dhcp_opts", anyValue, "cu"}, {"binding:vnic_type", anyValue, "cu"}, {"binding:host_id", text, "cua"},
			{"binding:profile", anyValue, "cua"}, {"dns_name", text, "cu"}, {"dns_domain", text, "cu"}, {"numa_affinity_policy", anyValue, "cu"},
			{"tenant_id", text, "c"}, {"project_id", text, "c"}, {"id", anyValue, ""}, {"status", anyValue, ""},
		},
		missing: notFoundAs("PortNotFound", "Port %s could not be found."),
		all:     func() []netItem { return byID(st.ports) },
		get:     func(id string) (netItem, bool) { x, is := st.ports[id]; return x, is },
		view:    portObject,
		narrow:  s.portsByDevice,
		create:  s.createPort,
		update:  func(_ *call, x netItem, in fields) error { return s.updatePort(x.(*port), in) },
		remove: func(_ *call, x netItem) error {
			p := x.(*port)
			if err := p.trunkGuard(); err != nil {
				return err
			}
			switch p.owner {
			case "network:router_interface", "network:router_gateway", "network:floatingip":
				return errorf(http.StatusConflict, "ServicePortInUse", "Port %s cannot be deleted directly via the port API: has device owner %s.", p.id, p.owner)
			}
			s.removePort(p)
			return nil
		},
	}
}

// portsByDevice answers lists filtered by device_id from the index.
func (s *Sim) portsByDevice(c *call) ([]netItem, bool) {
	ids := c.query["device_id"]
	if len(ids) == 0 {
		return nil, false
	}
	found := map[string]*port{}
	for _, id := range ids {
		for _, p := range s.network.portsByDevice[id] {
			found[p.id] = p
		}
	}
	return byID(found), true
}

func portObject(c *call, x netItem) object {
	p := x.(*port)
	ips := []object{}
	for _, ip := range p.fixed {
		ips = append(ips, object{"subnet_id": ip.SubnetID, "ip_address": ip.IP.String()})
	}
	o := p.view(object{
		"network_id": p.networkID, "mac_address": p.mac, "admin_state_up": p.adminUp, "status": p.status,
		"device_id": p.deviceID, "device_owner": p.owner, "fixed_ips": ips, "allowed_address_pairs": append([]addressPair{}, p.pairs...),
		"extra_dhcp_opts": []any{}, "security_groups": append([]string{}, p.groups...), "binding:vnic_type": "normal",
		"port_security_enabled": p.portSecurity,
	})
	if t := p.trunk; t != nil {
		// Lists lack the subports' MAC addresses.
		o["trunk_details"] = object{"trunk_id": t.id, "sub_ports": t.subportViews(c.r.PathValue("id") != "")}
	}
	if c.tok.admin {
		vif, details := "unbound", object{}
		if p.host != "" {
			vif, details = "ovs", object{"port_filter": true, "connectivity": "l2"}
		}
		o["binding:host_id"], o["binding:profile"], o["binding:vif_type"], o["binding:vif_details"] = p.host, object{}, vif, details
	}
	return o
}

// newPort makes a port and gives it addresses; mu held.
func (s *Sim) newPort(n *network, project, name string, wishes []fixedIPWish, asked bool) (*port, error) {
	p := &port{entity: s.newEntity(project, name), networkID: n.id, mac: s.newMAC(), adminUp: true, portSecurity: n.portSecurity, status: "DOWN"}
	if err := s.allocate(p, wishes, asked); err != nil {
		return nil, err
	}
	p.changed()
	s.network.ports[p.id] = p
	return p, nil
}

func (s *Sim) createPort(c *call, in fields) (netItem, error) {
	x, err := s.networkKind().find(c, in.text("network_id"))
	if err != nil {
		return nil, err
	}
	n := x.(*network)
	if !c.sees(n.project) && !n.shared {
		return nil, errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:create_port is disallowed by policy")
	}
	var wishes []fixedIPWish
	if err := in.into("fixed_ips", &wishes); err != nil {
		return nil, err
	}
	project := owner(c, in)
	p, err := s.newPort(n, project, "", wishes, in.has("fixed_ips") && !in.null("fixed_ips"))
	if err != nil {
		return nil, err
	}
	if mac := in.text("mac_address"); mac != "" {
		p.mac = mac
	}
	s.autoAddress(p)
	if g := s.network.defaultGroups[project]; g != nil && !in.has("security_groups") && in.boolean("port_security_enabled", n.portSecurity) {
		p.groups = []string{g.id}
	}
	delete(in, "fixed_ips")
	if err := s.updatePort(p, in); err != nil {
		s.removePort(p)
		return nil, err
	}
	return p, nil
}

// updatePort applies a validated body to a port.
func (s *Sim) updatePort(p *port, in fields) error {
	groups, err := s.wishedGroups(p, in)
	if err != nil {
		return err
	}
	pairs, err := wishedPairs(p, in)
	if err != nil {
		return err
	}
	security := in.boolean("port_security_enabled", p.portSecurity)
	if !security && len(pairs) > 0 {
		return errorf(http.StatusConflict, "AddressPairAndPortSecurityRequired", "Port Security must be enabled in order to have allowed address pairs on a port.")
	}
	if !security && len(groups) > 0 {
		return errorf(http.StatusConflict, "PortSecurityPortHasSecurityGroup", "Port has security group associated. Cannot disable port security or ip address until security group is removed.")
	}
	if in.has("fixed_ips") {
		if err := s.reallocate(p, in); err != nil {
			return err
		}
	}
	p.describe(in)
	p.groups, p.pairs, p.portSecurity = groups, pairs, security
	p.adminUp = in.boolean("admin_state_up", p.adminUp)
	if in.has("device_owner") {
		p.owner = in.text("device_owner")
	}
	if in.has("device_id") {
		s.setDevice(p, in.text("device_id"))
	}
	if in.has("binding:host_id") {
		p.host = in.text("binding:host_id")
	}
	return nil
}

// reallocate changes a port's addresses; those it keeps stay allocated.
func (s *Sim) reallocate(p *port, in fields) error {
	var wishes []fixedIPWish
	if err := in.into("fixed_ips", &wishes); err != nil {
		return err
	}
	old := p.fixed
	s.release(old)
	if err := s.allocate(p, wishes, true); err != nil {
		for _, ip := range old {
			if sub := s.network.subnets[ip.SubnetID]; sub != nil {
				sub.used[ip.IP] = p.id
			}
		}
		p.fixed = old
		return err
	}
	return nil
}

func (s *Sim) wishedGroups(p *port, in fields) ([]string, error) {
	if !in.has("security_groups") {
		return p.groups, nil
	}
	var ids []string
	if err := in.into("security_groups", &ids); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if s.network.groups[id] == nil {
			return nil, errorf(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
		}
	}
	return ids, nil
}

func wishedPairs(p *port, in fields) ([]addressPair, error) {
	if !in.has("allowed_address_pairs") {
		return p.pairs, nil
	}
	if in.null("allowed_address_pairs") {
		return nil, nil
	}
	var raw []struct {
		IP  *string `json:"ip_address"`
		MAC *string `json:"mac_address"`
	}
	if json.Unmarshal(in["allowed_address_pairs"], &raw) != nil {
		return nil, badRequest("Allowed address pairs must be a list.")
	}
	var out []addressPair
	for _, r := range raw {
		if r.IP == nil {
			return nil, errorf(http.StatusBadRequest, "AllowedAddressPairsMissingIP", "AllowedAddressPair must contain ip_address")
		}
		_, errIP := netip.ParseAddr(*r.IP)
		_, errNet := netip.ParsePrefix(*r.IP)
		if errIP != nil && errNet != nil {
			return nil, badRequest("'%s' is not a valid IP address", *r.IP)
		}
		pair, mac := addressPair{MAC: p.mac, IP: *r.IP}, "None"
		if r.MAC != nil {
			pair.MAC, mac = *r.MAC, *r.MAC
		}
		if slices.Contains(out, pair) {
			return nil, errorf(http.StatusBadRequest, "DuplicateAddressPairInRequest", "Request contains duplicate address pair: mac_address %s ip_address %s.", mac, pair.IP)
		}
		out = append(out, pair)
	}
	return out, nil
}

// setDevice keeps the index of ports by device right.
func (s *Sim) setDevice(p *port, deviceID string) {
	st := &s.network
	if p.deviceID == deviceID {
		return
	}
	s.unindexDevice(p)
	if p.deviceID = deviceID; deviceID != "" {
		st.portsByDevice[deviceID] = append(st.portsByDevice[deviceID], p)
	}
}

func (s *Sim) unindexDevice(p *port) {
	st := &s.network
	left := slices.DeleteFunc(st.portsByDevice[p.deviceID], func(x *port) bool { return x == p })
	if len(left) == 0 {
		delete(st.portsByDevice, p.deviceID)
		return
	}
	st.portsByDevice[p.deviceID] = left
}

// removePort deletes a port; its floating IPs become free.
func (s *Sim) removePort(p *port) {
	for _, f := range slices.Clone(s.network.fipsByPort[p.id]) {
		s.associate(f, nil, netip.Addr{})
		f.changed()
	}
	s.dropTrunks(p)
	s.release(p.fixed)
	s.unindexDevice(p)
	delete(s.network.ports, p.id)
	s.forwardPort(p.id)
}

// createServerPort makes the port of a new server; mu held.
func (s *Sim) createServerPort(w portWish) (portView, error) {
	id := w.NetworkID
	if id == "" {
		id = s.network.defaults.NetworkID
	}
	n := s.network.networks[id]
	if n == nil {
		return portView{}, fmt.Errorf("network %s could not be found", id)
	}
	var wishes []fixedIPWish
	if w.FixedIP.IsValid() {
		wishes = []fixedIPWish{{IP: w.FixedIP.String()}}
	}
	p, err := s.newPort(n, w.ProjectID, "", wishes, wishes != nil)
	if err != nil {
		return portView{}, fmt.Errorf("port on network %s: %w", id, err)
	}
	s.autoAddress(p)
	if g := s.network.defaultGroups[w.ProjectID]; g != nil && p.portSecurity {
		p.groups = []string{g.id}
	}
	return s.bindPort(p.id, w.DeviceID, w.Zone)
}

// bindPort attaches a port to a server in a zone; mu held.
func (s *Sim) bindPort(portID, deviceID, zone string) (portView, error) {
	p := s.network.ports[portID]
	if p == nil {
		return portView{}, fmt.Errorf("port %s could not be found", portID)
	}
	if p.deviceID != "" && p.deviceID != deviceID {
		return portView{}, fmt.Errorf("port %s is still in use", portID)
	}
	s.setDevice(p, deviceID)
	p.owner, p.host, p.status = "compute:"+zone, "compute-"+zone, "ACTIVE"
	if p.trunk != nil {
		for _, sub := range p.trunk.subs {
			sub.port.status = p.status
		}
	}
	p.changed()
	return s.viewPort(p), nil
}

func (s *Sim) viewPort(p *port) portView {
	v := portView{ID: p.id, NetworkID: p.networkID, MAC: p.mac, Status: p.status, FixedIPs: p.fixed}
	v.NetworkName, _ = s.networkName(p.networkID)
	for _, f := range s.network.fipsByPort[p.id] {
		v.FloatingIPs = append(v.FloatingIPs, f.ip)
	}
	return v
}

// portsOf returns a device's ports in order of creation; mu held.
func (s *Sim) portsOf(deviceID string) []portView {
	ports := s.network.portsByDevice[deviceID]
	out := make([]portView, len(ports))
	for i, p := range ports {
		out[i] = s.viewPort(p)
	}
	return out
}

// deletePortsOf deletes a device's ports; mu held.
func (s *Sim) deletePortsOf(deviceID string) {
	for _, p := range slices.Clone(s.network.portsByDevice[deviceID]) {
		if strings.HasPrefix(p.owner, "compute:") {
			s.removePort(p)
		}
	}
}

// networkName returns a network's name; mu held.
func (s *Sim) networkName(id string) (string, bool) {
	n, is := s.network.networks[id]
	if !is {
		return "", false
	}
	return n.name, true
}
