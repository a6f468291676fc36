package loadbalancer

import (
	"net/http"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

func poolAttrs() []schema.Attr {
	return []schema.Attr{
		{Name: "loadbalancer_id", Type: schema.UUID, Modes: "c"}, {Name: "listener_id", Type: schema.UUID, Modes: "c"},
		{Name: "protocol", Type: schema.Enum, Modes: "c!", Values: []string{"PROXYV2", "SCTP", "PROXY", "HTTP", "HTTPS", "TCP", "UDP"}},
		{Name: "lb_algorithm", Type: schema.Enum, Modes: "cu!", Values: []string{"ROUND_ROBIN", "SOURCE_IP", "LEAST_CONNECTIONS", "SOURCE_IP_PORT"}},
		{Name: "name", Type: schema.Text, Modes: "cu"}, {Name: "description", Type: schema.Text, Modes: "cu"}, {Name: "admin_state_up", Type: schema.Bool, Modes: "cu"},
		{Name: "tags", Type: schema.Tags, Modes: "cu"}, {Name: "session_persistence", Type: schema.Any, Modes: "cu"}, {Name: "members", Type: schema.Any, Modes: "c"},
		{Name: "healthmonitor", Type: schema.Any, Modes: "c"}, {Name: "tls_enabled", Type: schema.Bool, Modes: "cu"}, {Name: "tls_container_ref", Type: schema.Any, Modes: "cu"},
		{Name: "ca_tls_container_ref", Type: schema.Any, Modes: "cu"}, {Name: "crl_container_ref", Type: schema.Any, Modes: "cu"}, {Name: "tls_ciphers", Type: schema.Any, Modes: "cu"},
		{Name: "tls_versions", Type: schema.Any, Modes: "cu"}, {Name: "alpn_protocols", Type: schema.Any, Modes: "cu"}, {Name: "project_id", Type: schema.Text, Modes: "c"},
	}
}

func (s *Octavia) poolKind() *lbKind {
	ownerID := func(x lbItem) string { return x.owner().id }
	k := &lbKind{
		one: "pool", many: "pools", label: "Pool", argument: "pool_.pool",
		filters: map[string]func(lbItem) string{"loadbalancer_id": ownerID, "load_balancer_id": ownerID},
		attrs:   poolAttrs(),
		all:     func(*core.Call) ([]lbItem, error) { return items(byAge(s.pools)), nil },
		get:     func(_ *core.Call, id string) (lbItem, bool) { x, is := s.pools[id]; return x, is },
		view:    func(x lbItem) core.Object { return poolView(x.(*pool)) },
		create:  s.createPool,
		update:  func(_ *core.Call, x lbItem, in dialect.Fields) error { return s.updatePool(x.(*pool), in) },
		remove: func(_ *core.Call, x lbItem) error {
			p := x.(*pool)
			if err := p.lb.mutable(); err != nil {
				return err
			}
			touch(p)
			s.pend(p.lb, pendingDelete, p)
			return nil
		},
	}
	return k
}

func poolView(x *pool) core.Object {
	o := x.view(core.Object{
		"protocol": x.protocol, "lb_algorithm": x.algorithm, "session_persistence": x.persistence,
		"loadbalancers": []core.Object{{"id": x.lb.id}}, "listeners": ids(x.users()), "members": ids(x.members),
		"tls_container_ref": nil, "ca_tls_container_ref": nil, "crl_container_ref": nil, "tls_enabled": false, "tls_ciphers": nil, "tls_versions": nil, "alpn_protocols": nil,
	})
	if x.monitor != nil {
		o["healthmonitor_id"] = x.monitor.id
	}
	return o
}

func (s *Octavia) createPool(c *core.Call, in dialect.Fields) (lbItem, error) {
	lb, l, err := s.poolPlace(c, in)
	if err != nil {
		return nil, err
	}
	if len(in.Objects("members")) > 0 || in.Given("healthmonitor") {
		return nil, nestedFault()
	}
	if err := lb.mutable(); err != nil {
		return nil, err
	}
	if l != nil {
		if err := l.fits(in.Text("protocol")); err != nil {
			return nil, err
		}
	}
	if l != nil && l.pool != nil {
		return nil, schema.ClientFault(http.StatusConflict, "This listener already has a default pool")
	}
	if err := lb.balances(in); err != nil {
		return nil, err
	}
	p, err := s.buildPool(lb, in)
	if err != nil {
		return nil, err
	}
	if l != nil {
		if err := l.use(p); err != nil {
			return nil, err
		}
	}
	lb.pools = append(lb.pools, p)
	s.pools[p.id] = p
	s.pend(lb, pendingCreate, p)
	touch(p)
	return p, nil
}

// poolPlace finds the load balancer and the listener that a new pool is for.
func (s *Octavia) poolPlace(c *core.Call, in dialect.Fields) (*loadBalancer, *listener, error) {
	if id := in.Text("listener_id"); id != "" {
		l := s.listeners[id]
		if l == nil || !c.Sees(l.project) {
			return nil, nil, core.Errorf(http.StatusInternalServerError, "Server", "'NoneType' object has no attribute 'load_balancer_id'")
		}
		return l.lb, l, nil
	}
	id := in.Text("loadbalancer_id")
	if id == "" {
		return nil, nil, schema.ValidationFault("Must provide at least one of: loadbalancer_id, listener_id")
	}
	lb := s.lbs[id]
	if lb == nil || !c.Sees(lb.project) {
		return nil, nil, schema.ClientFault(http.StatusNotFound, "Load Balancer %s not found.", id)
	}
	return lb, nil, nil
}

// balances is what the amphora driver checks of a pool, unless it comes with its load balancer.
func (x *loadBalancer) balances(in dialect.Fields) error {
	if algorithm := in.Text("lb_algorithm"); x.provider == amphora && algorithm == "SOURCE_IP_PORT" {
		return core.Errorf(http.StatusNotImplemented, "Server", "Provider 'amphora' does not support a requested option: Amphora provider does not support %s algorithm.", algorithm)
	}
	return nil
}

func (s *Octavia) buildPool(lb *loadBalancer, in dialect.Fields) (*pool, error) {
	p := &pool{lbEntity: s.newLBEntity(lb.project), lb: lb, protocol: in.Text("protocol")}
	p.describe(in)
	return p, p.set(in)
}

// set applies a validated body.
func (x *pool) set(in dialect.Fields) error {
	algorithm := x.algorithm
	if in.Given("lb_algorithm") {
		algorithm = in.Text("lb_algorithm")
	}
	persistence, err := x.wishedPersistence(in)
	if err != nil {
		return err
	}
	if x.lb.provider == ovn {
		if transport(x.protocol) != x.protocol {
			return schema.Unsupported("OVN provider does not support %s protocol", x.protocol)
		}
		if algorithm != "SOURCE_IP_PORT" {
			return schema.Unsupported("OVN provider does not support %s algorithm", algorithm)
		}
	}
	x.algorithm, x.persistence = algorithm, persistence
	return nil
}

func (x *pool) wishedPersistence(in dialect.Fields) (*persistence, error) {
	if !in.Has("session_persistence") {
		return x.persistence, nil
	}
	if in.Null("session_persistence") {
		return nil, nil
	}
	sp := in.Object("session_persistence")
	if len(sp) == 0 { // changes nothing: only null takes it away
		return x.persistence, nil
	}
	attrs := []schema.Attr{
		{Name: "type", Type: schema.Enum, Modes: "cu!", Values: []string{"APP_COOKIE", "SOURCE_IP", "HTTP_COOKIE"}}, {Name: "cookie_name", Type: schema.Text, Modes: "cu"},
		{Name: "persistence_timeout", Type: schema.Int, Modes: "cu", Max: schema.MaxNumber}, {Name: "persistence_granularity", Type: schema.IP, Modes: "cu"},
	}
	if err := schema.Check(attrs, "pool_.pool.session_persistence", sp, x.persistence == nil); err != nil {
		return nil, err
	}
	out := persistence{}
	if x.persistence != nil {
		out = *x.persistence
	}
	if sp.Given("type") {
		out.Type = sp.Text("type")
	}
	if sp.Has("cookie_name") {
		out.Cookie = sp.Optional("cookie_name")
	}
	if sp.Has("persistence_granularity") {
		out.Granularity = sp.Optional("persistence_granularity")
	}
	if sp.Given("persistence_timeout") {
		n := sp.Number("persistence_timeout", 0)
		out.Timeout = &n
	}
	switch udp := x.protocol == "UDP" || x.protocol == "SCTP"; {
	case out.Type == "APP_COOKIE" && out.Cookie == nil:
		return nil, schema.ValidationFault(`Field "cookie_name" must be specified when using the "APP_COOKIE" session persistence type.`)
	case out.Type != "APP_COOKIE" && out.Cookie != nil:
		return nil, schema.ValidationFault(`Field "cookie_name" can only be specified with session persistence of type "APP_COOKIE".`)
	case !udp && (out.Timeout != nil || out.Granularity != nil):
		return nil, schema.ValidationFault("persistence_timeout and persistence_granularity is only for UDP and SCTP protocol pools.")
	case udp && out.Type != "SOURCE_IP":
		return nil, schema.ValidationFault("Session persistence of type SOURCE_IP is only supported for UDP or SCTP protocol pools.")
	}
	return &out, nil
}

func (s *Octavia) updatePool(p *pool, in dialect.Fields) error {
	if err := p.lb.mutable(); err != nil {
		return err
	}
	if err := p.lb.balances(in); err != nil {
		return err
	}
	if err := p.set(in); err != nil {
		return err
	}
	s.pend(p.lb, pendingUpdate, p)
	touch(p)
	return nil
}
