package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

const (
	amphora = "amphora"
	ovn     = "ovn"
)

func loadBalancerAttrs() []schema.Attr {
	return []schema.Attr{
		{Name: "name", Type: schema.Text, Modes: "cu"}, {Name: "description", Type: schema.Text, Modes: "cu"}, {Name: "admin_state_up", Type: schema.Bool, Modes: "cu"},
		{Name: "tags", Type: schema.Tags, Modes: "cu"}, {Name: "vip_address", Type: schema.IP, Modes: "c"}, {Name: "vip_port_id", Type: schema.UUID, Modes: "c"},
		{Name: "vip_subnet_id", Type: schema.UUID, Modes: "c"}, {Name: "vip_network_id", Type: schema.UUID, Modes: "c"}, {Name: "vip_qos_policy_id", Type: schema.UUID, Modes: "cu"},
		{Name: "additional_vips", Type: schema.Any, Modes: "c"}, {Name: "project_id", Type: schema.Text, Modes: "c"}, {Name: "listeners", Type: schema.Any, Modes: "c"},
		{Name: "pools", Type: schema.Any, Modes: "c"}, {Name: "provider", Type: schema.Text, Modes: "c"}, {Name: "flavor_id", Type: schema.UUID, Modes: "c"},
		{Name: "availability_zone", Type: schema.Text, Modes: "c"},
	}
}

func (s *Octavia) loadBalancerKind() *lbKind {
	return &lbKind{
		one: "loadbalancer", many: "loadbalancers", label: "Load Balancer", argument: "load_balancer.loadbalancer",
		attrs: loadBalancerAttrs(),
		all:   func(*core.Call) ([]lbItem, error) { return items(byAge(s.lbs)), nil },
		get:   func(_ *core.Call, id string) (lbItem, bool) { x, is := s.lbs[id]; return x, is },
		view:  func(x lbItem) core.Object { return lbView(x.(*loadBalancer)) },
		made:  func(x lbItem) core.Object { return fullView(x.(*loadBalancer)) },
		create: func(c *core.Call, in dialect.Fields) (lbItem, error) {
			return s.createLB(c, in)
		},
		update: func(_ *core.Call, x lbItem, in dialect.Fields) error { return s.updateLB(x.(*loadBalancer), in) },
		remove: func(c *core.Call, x lbItem) error { return s.deleteLB(c, x.(*loadBalancer)) },
	}
}

// items makes a slice of objects out of one of a kind.
func items[T lbItem](in []T) []lbItem {
	out := make([]lbItem, len(in))
	for i, x := range in {
		out[i] = x
	}
	return out
}

// ids lists objects as references.
func ids[T lbItem](in []T) []core.Object {
	out := make([]core.Object, len(in))
	for i, x := range in {
		out[i] = core.Object{"id": x.root().id}
	}
	return out
}

func lbView(x *loadBalancer) core.Object {
	return x.view(core.Object{
		"vip_address": x.vip.String(), "vip_port_id": x.vipPort, "vip_subnet_id": x.vipSubnet, "vip_network_id": x.vipNetwork,
		"additional_vips": x.additionalViews(), "listeners": ids(x.listeners), "pools": ids(x.pools), "provider": x.provider, "flavor_id": nil,
		"vip_qos_policy_id": nil, "availability_zone": nil,
	})
}

// fullView shows a new load balancer with its whole tree, as the answer to its creation does.
func fullView(x *loadBalancer) core.Object {
	o := lbView(x)
	listeners, pools := []core.Object{}, []core.Object{}
	for _, l := range x.listeners {
		v := listenerView(l)
		delete(v, "loadbalancers")
		listeners = append(listeners, v)
	}
	for _, p := range x.pools {
		v := poolView(p)
		delete(v, "loadbalancers")
		members := []core.Object{}
		for _, m := range p.members {
			members = append(members, memberView(m))
		}
		v["members"], v["healthmonitor"] = members, nil
		delete(v, "healthmonitor_id")
		if p.monitor != nil {
			h := monitorView(p.monitor)
			delete(h, "pools")
			v["healthmonitor"] = h
		}
		pools = append(pools, v)
	}
	o["listeners"], o["pools"] = listeners, pools
	return o
}

func (s *Octavia) createLB(c *core.Call, in dialect.Fields) (lbItem, error) {
	provider := in.Text("provider")
	switch provider {
	case "", "octavia":
		provider = amphora
	case amphora, ovn:
	default:
		return nil, schema.ClientFault(http.StatusBadRequest, "Provider '%s' is not enabled.", provider)
	}
	if !in.Given("vip_port_id") && !in.Given("vip_network_id") && !in.Given("vip_subnet_id") {
		return nil, schema.ValidationFault("VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
	}
	switch {
	case in.Given("flavor_id"):
		return nil, schema.ValidationFault("Invalid flavor_id.") // there are none
	case in.Has("availability_zone"):
		return nil, schema.ValidationFault("Invalid availability zone.")
	case in.Given("vip_qos_policy_id"):
		return nil, schema.ValidationFault("VIP QoS policy is not allowed in this deployment.")
	}
	project := in.Text("project_id")
	if project == "" {
		project = c.Project()
	}
	x := &loadBalancer{lbEntity: s.newLBEntity(project), provider: provider, forwards: map[forward.Key]*forwarding{}, checks: map[*pool]*healthCheck{}}
	x.describe(in)
	var err error
	if x.additional, err = wishedVIPs(in); err != nil {
		return nil, err
	}
	if err := s.placeVIP(c, x, in); err != nil {
		return nil, err
	}
	if err := s.graph(x, in); err != nil {
		s.undoVIP(x)
		return nil, err
	}
	s.adopt(x)
	s.strand(x)
	s.pend(x, pendingCreate, x)
	return x, nil
}

// adopt makes a new load balancer and its tree known.
func (s *Octavia) adopt(lb *loadBalancer) {
	for _, x := range lb.tree() {
		switch x := x.(type) {
		case *loadBalancer:
			s.lbs[x.id] = x
		case *listener:
			s.listeners[x.id] = x
		case *pool:
			s.pools[x.id] = x
		case *member:
			s.members[x.id] = x
		case *monitor:
			s.monitors[x.id] = x
		}
	}
}

// placeVIP finds or makes the VIP's port.
func (s *Octavia) placeVIP(c *core.Call, x *loadBalancer, in dialect.Fields) error {
	if id := in.Text("vip_port_id"); id != "" {
		p, is := s.network.Get(id)
		if !is || !c.Sees(p.ProjectID) {
			return vipNotFound("Port", id)
		}
		if p.DeviceID != "" {
			return schema.ValidationFault("Port %s is already used by device %s ", p.ID, p.DeviceID)
		}
		if err := x.usePort(p, in); err != nil {
			return err
		}
		x.nameVIPs(p)
		return s.checkVIPs(x)
	}
	sub, err := s.vipSubnet(in)
	if err != nil {
		return err
	}
	x.vipSubnet = sub.ID
	if err := s.checkVIPs(x); err != nil {
		return err
	}
	if err := s.makeVIP(x, core.FixedIPWish{SubnetID: sub.ID, IP: in.Text("vip_address")}); err != nil {
		return providerFault(x.provider, err)
	}
	return nil
}

func vipNotFound(what, id string) error {
	return schema.ClientFault(http.StatusBadRequest, "%s %s not found.", what, id)
}

// vipSubnet is the subnet that a body names for the VIP, itself or through its network: that of the
// address asked for, else the first, of IPv4 where there is one.
func (s *Octavia) vipSubnet(in dialect.Fields) (core.Subnet, error) {
	id, networkID := in.Text("vip_subnet_id"), in.Text("vip_network_id")
	if _, is := s.network.NetworkName(networkID); networkID != "" && !is {
		return core.Subnet{}, vipNotFound("Network", networkID)
	}
	if id != "" {
		sub, is := s.network.Subnet(id)
		if !is || networkID != "" && sub.NetworkID != networkID {
			return core.Subnet{}, vipNotFound("Subnet", id)
		}
		return sub, nil
	}
	subs := s.network.SubnetsOf(networkID)
	if len(subs) == 0 {
		return core.Subnet{}, schema.ValidationFault("Supplied network does not contain a subnet.")
	}
	fits := func(sub core.Subnet) bool { return sub.CIDR.Addr().Is4() }
	if ip, err := netip.ParseAddr(in.Text("vip_address")); err == nil {
		fits = func(sub core.Subnet) bool { return sub.CIDR.Contains(ip) }
		if !slices.ContainsFunc(subs, fits) {
			return core.Subnet{}, schema.ValidationFault("Supplied network does not contain a subnet for VIP address specified.")
		}
	}
	return subs[max(0, slices.IndexFunc(subs, fits))], nil
}

// makeVIP makes the VIP's port as the provider's driver does.
func (s *Octavia) makeVIP(x *loadBalancer, wish core.FixedIPWish) error {
	want := core.VIPWish{ProjectID: x.project, Name: "octavia-lb-" + x.id, FixedIPs: []core.FixedIPWish{wish}}
	if x.provider == ovn {
		want.Name = "ovn-lb-vip-" + x.id
	} else { // ovn's driver forgets the others
		for _, v := range x.additional {
			want.FixedIPs = append(want.FixedIPs, v.wish())
		}
	}
	if x.provider == amphora {
		want.Device, want.Owner = "lb-"+x.id, "Octavia"
	}
	p, err := s.network.CreateVIP(want)
	if err != nil {
		return err
	}
	x.nameVIPs(p)
	x.ownsPort = true
	return x.usePort(p, dialect.Fields{"vip_subnet_id": json.RawMessage(`"` + wish.SubnetID + `"`)})
}

// usePort makes a port the VIP's, with that of its addresses that the body names. A port that the caller
// brought keeps its device and owner.
func (x *loadBalancer) usePort(p core.Port, in dialect.Fields) error {
	subnetID, address := in.Text("vip_subnet_id"), in.Text("vip_address")
	i := slices.IndexFunc(p.FixedIPs, func(ip core.FixedIP) bool {
		return subnetID != "" && ip.SubnetID == subnetID || subnetID == "" && address != "" && ip.IP.String() == address
	})
	switch {
	case i >= 0:
	case subnetID != "":
		return schema.ValidationFault("No VIP address found on the specified VIP port within the specified subnet.")
	case address != "":
		return schema.ValidationFault("Specified VIP address not found on the specified VIP port.")
	case len(p.FixedIPs) != 1:
		return schema.ValidationFault("VIP port's subnet could not be determined. Please specify either a VIP subnet or address.")
	default:
		i = 0
	}
	x.vip, x.vipPort, x.vipSubnet, x.vipNetwork = p.FixedIPs[i].IP, p.ID, p.FixedIPs[i].SubnetID, p.NetworkID
	return nil
}

// undoVIP takes back placeVIP, which Zed forgets.
func (s *Octavia) undoVIP(x *loadBalancer) {
	if x.ownsPort && !s.opts.LeakVIPPorts {
		s.network.Remove(x.vipPort)
	}
}

// providerFault is what Octavia makes of Neutron's refusal.
func providerFault(provider string, err error) error {
	text := err.Error()
	if e, is := err.(*core.Error); is { //nolint:errorlint // the callers do not wrap
		text = e.Message
	}
	return core.Errorf(http.StatusInternalServerError, "Server", "Provider '%s' reports error: %s\nNeutron server returns request_ids: ['req-%s']", provider, text, core.NewID())
}

// invalidState is the refusal to change a load balancer itself while it is pending.
func (x *loadBalancer) invalidState() error {
	return schema.ClientFault(http.StatusConflict, "Invalid state %s of loadbalancer resource %s", x.prov, x.id)
}

func (s *Octavia) updateLB(x *loadBalancer, in dialect.Fields) error {
	if in.Given("vip_qos_policy_id") {
		return schema.ValidationFault("VIP QoS policy is not allowed in this deployment.")
	}
	if x.prov != active {
		return x.invalidState()
	}
	s.pend(x, pendingUpdate, x)
	return nil
}

func (s *Octavia) deleteLB(c *core.Call, x *loadBalancer) error {
	if x.prov != active && x.prov != inError {
		return x.invalidState()
	}
	cascade, _ := dialect.ParseBool(c.Query.Get("cascade"))
	if !cascade && len(x.listeners)+len(x.pools) > 0 {
		return schema.ValidationFault("Cannot delete Load Balancer %s - it has children", x.id)
	}
	s.pend(x, pendingDelete, x)
	return nil
}

func (s *Octavia) lbStatus(c *core.Call) (*core.Reply, error) {
	y, err := s.loadBalancerKind().find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	x := y.(*loadBalancer)
	listeners := []core.Object{}
	for _, l := range x.listeners {
		pools := []core.Object{}
		if l.pool != nil {
			pools = append(pools, poolStatus(l.pool))
		}
		v := statusOf(l)
		v["pools"] = pools
		listeners = append(listeners, v)
	}
	out := statusOf(x)
	out["listeners"] = listeners
	return core.OK(core.Object{"statuses": core.Object{"loadbalancer": out}})
}

func statusOf(x lbItem) core.Object {
	e := x.root()
	return core.Object{"id": e.id, "name": e.name, "operating_status": e.oper, "provisioning_status": e.prov}
}

func poolStatus(p *pool) core.Object {
	members := []core.Object{}
	for _, m := range p.members {
		v := statusOf(m)
		v["address"], v["protocol_port"] = m.address.String(), m.port
		members = append(members, v)
	}
	out := statusOf(p)
	out["members"] = members
	if p.monitor != nil {
		v := statusOf(p.monitor)
		v["type"] = p.monitor.typ
		out["health_monitor"] = v
	}
	return out
}

func (s *Octavia) lbStats(c *core.Call) (*core.Reply, error) {
	if _, err := s.loadBalancerKind().find(c, c.Param("id")); err != nil {
		return nil, err
	}
	return noStats()
}

func (s *Octavia) listenerStats(c *core.Call) (*core.Reply, error) {
	if _, err := s.listenerKind().find(c, c.Param("id")); err != nil {
		return nil, err
	}
	return noStats()
}

// noStats answers zeros, as Octavia does before an amphora has reported.
func noStats() (*core.Reply, error) {
	return core.OK(core.Object{"stats": core.Object{"bytes_in": 0, "bytes_out": 0, "active_connections": 0, "total_connections": 0, "request_errors": 0}})
}

// sameFamily reports whether two addresses are of one IP version.
func sameFamily(a, b netip.Addr) bool { return a.Is4() == b.Is4() }
