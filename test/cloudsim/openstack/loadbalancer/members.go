package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

func memberAttrs() []schema.Attr {
	return []schema.Attr{
		{Name: "address", Type: schema.IP, Modes: "c!"}, {Name: "protocol_port", Type: schema.Int, Modes: "c!", Min: 1, Max: 65535}, {Name: "name", Type: schema.Text, Modes: "cu"},
		{Name: "admin_state_up", Type: schema.Bool, Modes: "cu"}, {Name: "tags", Type: schema.Tags, Modes: "cu"}, {Name: "weight", Type: schema.Int, Modes: "cu", Max: 256},
		{Name: "backup", Type: schema.Bool, Modes: "cu"}, {Name: "subnet_id", Type: schema.UUID, Modes: "c"}, {Name: "monitor_port", Type: schema.Int, Modes: "cu", Min: 1, Max: 65535},
		{Name: "monitor_address", Type: schema.IP, Modes: "cu"}, {Name: "project_id", Type: schema.Text, Modes: "c"},
	}
}

func (s *Octavia) memberKind() *lbKind {
	return &lbKind{
		one: "member", many: "members", label: "Member", argument: "member_.member", attrs: memberAttrs(),
		all: func(c *core.Call) ([]lbItem, error) {
			p := s.pools[c.Param("pool")]
			if p == nil || !c.Sees(p.project) {
				return nil, s.noPool(c)
			}
			return items(p.members), nil
		},
		get: func(c *core.Call, id string) (lbItem, bool) {
			x, is := s.members[id]
			return x, is && x.pool.id == c.Param("pool")
		},
		view:   func(x lbItem) core.Object { return memberView(x.(*member)) },
		create: s.createMember,
		update: func(_ *core.Call, x lbItem, in dialect.Fields) error {
			m := x.(*member)
			if err := m.set(in); err != nil {
				return err
			}
			return s.pendMember(m, pendingUpdate)
		},
		remove: func(_ *core.Call, x lbItem) error { return s.pendMember(x.(*member), pendingDelete) },
	}
}

// noPool is Octavia's odd refusal to list the members of an unknown pool.
func (s *Octavia) noPool(c *core.Call) *core.Error {
	return &core.Error{
		Status: http.StatusNotFound, Message: "pool", ContentType: "text/plain; charset=UTF-8",
		Body: []byte("404 Bad Request\n\nThe server could not comply with the request since it is either malformed or otherwise incorrect.\n\n Pool " + c.Param("pool") + " not found.  "),
	}
}

func (s *Octavia) pendMember(m *member, status string) error {
	if err := m.pool.mutable(); err != nil {
		return err
	}
	s.pend(m.pool.lb, status, m)
	touch(m.pool)
	return nil
}

func memberView(x *member) core.Object {
	o := x.view(core.Object{
		"address": x.address.String(), "protocol_port": x.port, "weight": x.weight, "backup": x.backup, "subnet_id": x.subnet,
		"monitor_address": x.monitorAddress, "monitor_port": x.monitorPort,
	})
	delete(o, "description")
	return o
}

func (s *Octavia) createMember(c *core.Call, in dialect.Fields) (lbItem, error) {
	p := s.pools[c.Param("pool")]
	if p == nil || !c.Sees(p.project) {
		return nil, schema.ClientFault(http.StatusNotFound, "Pool %s not found.", c.Param("pool"))
	}
	m, err := s.buildMember(p, in)
	if err != nil {
		return nil, err
	}
	if err := p.mutable(); err != nil {
		return nil, err
	}
	if o := p.memberAt(m.address, m.port); o != nil {
		return nil, duplicateMember(o)
	}
	s.addMember(m)
	s.pend(p.lb, pendingCreate, m)
	touch(p)
	return m, nil
}

func (s *Octavia) addMember(m *member) {
	m.pool.members = append(m.pool.members, m)
	s.members[m.id] = m
}

func duplicateMember(m *member) *core.Error {
	return schema.ClientFault(http.StatusConflict, "Another member on this pool is already using ip %s on protocol_port %d", m.address, m.port)
}

func (x *pool) memberAt(ip netip.Addr, port int) *member {
	for _, m := range x.members {
		if m.address == ip && m.port == port && m.prov != pendingDelete {
			return m
		}
	}
	return nil
}

// buildMember makes a member that is not yet in its pool.
func (s *Octavia) buildMember(p *pool, in dialect.Fields) (*member, error) {
	m := &member{lbEntity: s.newLBEntity(p.project), pool: p, port: in.Number("protocol_port", 0), weight: 1, subnet: in.Optional("subnet_id")}
	m.oper = noMonitor
	if p.monitor != nil {
		m.oper = offline
	}
	ip, err := netip.ParseAddr(in.Text("address"))
	if err != nil {
		return nil, err
	}
	m.address = ip
	if ip == netip.AddrFrom4([4]byte{169, 254, 169, 254}) {
		return nil, schema.ClientFault(http.StatusBadRequest, "%s is not a valid option for member address", ip)
	}
	if m.subnet != nil && !s.hasSubnet(*m.subnet) {
		return nil, schema.ClientFault(http.StatusBadRequest, "Subnet %s not found.", *m.subnet)
	}
	m.describe(in)
	if err := m.set(in); err != nil {
		return nil, err
	}
	if p.lb.provider == ovn && !sameFamily(ip, p.lb.vip) {
		return nil, schema.Unsupported("OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer.")
	}
	if p.lb.provider == amphora && transport(p.protocol) != "TCP" && len(p.users()) > 0 && !p.lb.hasFamily(ip) {
		return nil, core.Errorf(http.StatusNotImplemented, "Server", "Provider 'amphora' does not support a requested option: This provider doesn't support mixing IPv4 and IPv6 addresses for its VIP and members in %s load balancers.", p.protocol)
	}
	return m, nil
}

// set applies a validated body.
func (x *member) set(in dialect.Fields) error {
	if x.pool.lb.provider == ovn && (in.Given("monitor_address") || in.Given("monitor_port")) {
		return schema.Unsupported("OVN Load Balancer does not support different member monitor address or port.")
	}
	x.weight = in.Number("weight", x.weight)
	x.backup = in.Boolean("backup", x.backup)
	if in.Has("monitor_address") {
		x.monitorAddress = in.Optional("monitor_address")
	}
	if in.Has("monitor_port") {
		if x.monitorPort = nil; in.Given("monitor_port") {
			n := in.Number("monitor_port", 0)
			x.monitorPort = &n
		}
	}
	return nil
}

// batchMembers makes a pool's members those of the body: others go, unless additive_only is asked for.
func (s *Octavia) batchMembers(c *core.Call) (*core.Reply, error) {
	var doc struct{ Members []dialect.Fields }
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, schema.ClientFault(http.StatusBadRequest, "Request is not in valid JSON format")
	}
	if doc.Members == nil {
		return nil, core.Errorf(http.StatusInternalServerError, "Server", "'UnsetType' object is not iterable")
	}
	for _, in := range doc.Members {
		if err := schema.Check(memberAttrs(), "members_.members", in, true); err != nil {
			return nil, err
		}
	}
	y, err := s.poolKind().find(c, c.Param("pool"))
	if err != nil {
		return nil, err
	}
	p := y.(*pool)
	if err := p.mutable(); err != nil {
		return nil, err
	}
	additive, _ := dialect.ParseBool(c.Query.Get("additive_only"))
	if err := s.replaceMembers(p, doc.Members, additive); err != nil {
		return nil, err
	}
	return core.Answer(http.StatusAccepted, nil)
}

// replaceMembers plans the whole change before it makes any of it.
func (s *Octavia) replaceMembers(p *pool, want []dialect.Fields, additive bool) error {
	type change struct {
		m  *member
		in dialect.Fields // nil for a new member
	}
	var plan []change
	kept := map[*member]bool{}
	for _, in := range want {
		m, err := s.buildMember(p, in)
		if err != nil {
			return err
		}
		for _, o := range plan {
			// Of a member that is there already the last one holds.
			if o.in == nil && o.m.address == m.address && o.m.port == m.port {
				return duplicateMember(m)
			}
		}
		if old := p.memberAt(m.address, m.port); old != nil {
			kept[old] = true
			plan = append(plan, change{old, in})
		} else {
			plan = append(plan, change{m, nil})
		}
	}
	var gone []lbItem
	for _, m := range p.members {
		if !additive && !kept[m] {
			gone = append(gone, m)
		}
	}
	if len(plan)+len(p.members) == 0 {
		return nil
	}
	for _, ch := range plan {
		if ch.in == nil {
			s.addMember(ch.m)
			continue
		}
		if err := ch.m.set(ch.in); err != nil {
			return err
		}
		ch.m.describe(ch.in)
		moved := false
		if ch.in.Given("subnet_id") { // only a batch may change it, and nobody checks it
			subnet := ch.in.Optional("subnet_id")
			moved = ch.m.subnet == nil || subnet == nil || *ch.m.subnet != *subnet
			ch.m.subnet = subnet
		}
		if moved && p.lb.provider == ovn {
			// To this driver it is another member of the same ID: it makes that and then deletes the former,
			// upon which Octavia forgets the member.
			gone = append(gone, ch.m)
			continue
		}
		ch.m.prov, ch.m.stuck, ch.m.updated = pendingUpdate, false, time.Now().UTC()
	}
	s.pend(p.lb, pendingDelete, gone...)
	touch(p)
	return nil
}

func (s *Octavia) hasSubnet(id string) bool {
	_, is := s.network.Subnet(id)
	return is
}
