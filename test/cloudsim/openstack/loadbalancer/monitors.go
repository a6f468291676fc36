package loadbalancer

import (
	"net/http"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

func monitorAttrs() []schema.Attr {
	return []schema.Attr{
		{Name: "pool_id", Type: schema.UUID, Modes: "c!"},
		{Name: "type", Type: schema.Enum, Modes: "c!", Values: []string{"SCTP", "HTTP", "HTTPS", "PING", "TCP", "TLS-HELLO", "UDP-CONNECT"}},
		{Name: "delay", Type: schema.Int, Modes: "cu!", Max: schema.MaxNumber}, {Name: "timeout", Type: schema.Int, Modes: "cu!", Max: schema.MaxNumber},
		{Name: "max_retries", Type: schema.Int, Modes: "cu!", Min: 1, Max: 10}, {Name: "max_retries_down", Type: schema.Int, Modes: "cu", Min: 1, Max: 10},
		{Name: "name", Type: schema.Text, Modes: "cu"}, {Name: "admin_state_up", Type: schema.Bool, Modes: "cu"}, {Name: "tags", Type: schema.Tags, Modes: "cu"},
		{Name: "http_method", Type: schema.Enum, Modes: "cu", Values: []string{"GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "CONNECT"}},
		{Name: "url_path", Type: schema.Path, Modes: "cu"}, {Name: "expected_codes", Type: schema.Codes, Modes: "cu"}, {Name: "http_version", Type: schema.Any, Modes: "cu"},
		{Name: "domain_name", Type: schema.Any, Modes: "cu"}, {Name: "project_id", Type: schema.Text, Modes: "c"},
	}
}

func (s *Octavia) monitorKind() *lbKind {
	return &lbKind{
		one: "healthmonitor", many: "healthmonitors", label: "Health Monitor", argument: "health_monitor_.healthmonitor",
		attrs:   monitorAttrs(),
		filters: map[string]func(lbItem) string{"pool_id": func(x lbItem) string { return x.(*monitor).pool.id }},
		all:     func(*core.Call) ([]lbItem, error) { return items(byAge(s.monitors)), nil },
		get:     func(_ *core.Call, id string) (lbItem, bool) { x, is := s.monitors[id]; return x, is },
		view:    func(x lbItem) core.Object { return monitorView(x.(*monitor)) },
		create:  s.createMonitor,
		update: func(_ *core.Call, x lbItem, in dialect.Fields) error {
			h := x.(*monitor)
			if err := h.pool.mutable(); err != nil {
				return err
			}
			if err := h.set(in); err != nil {
				return err
			}
			s.pend(h.pool.lb, pendingUpdate, h)
			touchMonitored(h.pool)
			return nil
		},
		remove: func(_ *core.Call, x lbItem) error {
			h := x.(*monitor)
			if err := h.pool.mutable(); err != nil {
				return err
			}
			s.pend(h.pool.lb, pendingDelete, h)
			touchMonitored(h.pool)
			return nil
		},
	}
}

func monitorView(x *monitor) core.Object {
	o := x.view(core.Object{
		"type": x.typ, "delay": x.delay, "timeout": x.timeout, "max_retries": x.retries, "max_retries_down": x.retriesDown,
		"http_method": x.method, "url_path": x.path, "expected_codes": x.codes, "pools": []core.Object{{"id": x.pool.id}},
		"http_version": x.httpVersion, "domain_name": x.dom,
	})
	delete(o, "description")
	return o
}

func (s *Octavia) createMonitor(c *core.Call, in dialect.Fields) (lbItem, error) {
	p := s.pools[in.Text("pool_id")]
	if p == nil || !c.Sees(p.project) {
		return nil, schema.ClientFault(http.StatusNotFound, "Pool %s not found.", in.Text("pool_id"))
	}
	h, err := s.buildMonitor(p, in)
	if err != nil {
		return nil, err
	}
	if err := p.mutable(); err != nil {
		return nil, err
	}
	if err := h.offered(); err != nil {
		return nil, err
	}
	if p.monitor != nil {
		return nil, schema.ClientFault(http.StatusConflict, "This pool already has a health monitor")
	}
	p.monitor = h
	s.monitors[h.id] = h
	s.pend(p.lb, pendingCreate, h)
	touchMonitored(p)
	return h, nil
}

// touchMonitored is touch for changes of a monitor: the ovn driver does not say how its pool's listeners fare,
// and they stay PENDING_UPDATE until the next change of the pool or its members.
func touchMonitored(p *pool) {
	touch(p)
	for _, l := range p.users() {
		if p.lb.provider == ovn && l.prov == pendingUpdate {
			l.stuck = true
		}
	}
}

// buildMonitor makes a monitor that its pool does not yet know.
func (s *Octavia) buildMonitor(p *pool, in dialect.Fields) (*monitor, error) {
	h := &monitor{lbEntity: s.newLBEntity(p.project), pool: p, typ: in.Text("type"), retriesDown: 3}
	udp := p.protocol == "UDP" || p.protocol == "SCTP"
	if h.typ == "UDP-CONNECT" && !udp {
		return nil, schema.ValidationFault("The UDP-CONNECT type is only supported for pools of type UDP/SCTP.")
	}
	if udp && !slices.Contains([]string{"UDP-CONNECT", "SCTP", "HTTP", "TCP"}, h.typ) {
		return nil, schema.ValidationFault("The associated pool protocol is %s, so only a HTTP,SCTP,TCP,UDP-CONNECT health monitor is supported.", p.protocol)
	}
	if h.http() {
		h.method, h.path, h.codes = "GET", "/", "200"
	}
	h.describe(in)
	return h, h.set(in)
}

// offered refuses what the provider's driver does not do. Octavia does not ask it about the monitors of a fully
// populated create.
func (x *monitor) offered() error {
	if x.pool.lb.provider == ovn && x.typ != "TCP" && x.typ != "UDP-CONNECT" {
		return schema.Unsupported("OVN provider does not support %s health monitor type. Supported types: UDP-CONNECT, TCP", x.typ)
	}
	return nil
}

func (x *monitor) http() bool { return strings.HasPrefix(x.typ, "HTTP") }

// set applies a validated body.
func (x *monitor) set(in dialect.Fields) error {
	for _, f := range []struct {
		name string
		to   *any
	}{{"http_method", &x.method}, {"url_path", &x.path}, {"expected_codes", &x.codes}, {"domain_name", &x.dom}} {
		if !in.Given(f.name) {
			continue
		}
		if !x.http() {
			return schema.ClientFault(http.StatusBadRequest, "%s is not a valid option for health monitors of type %s", f.name, x.typ)
		}
		*f.to = in.Text(f.name)
	}
	if in.Given("http_version") {
		x.httpVersion = in["http_version"]
	}
	x.delay = in.Number("delay", x.delay)
	x.timeout = in.Number("timeout", x.timeout)
	x.retries = in.Number("max_retries", x.retries)
	x.retriesDown = in.Number("max_retries_down", x.retriesDown)
	return nil
}
