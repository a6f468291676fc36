package loadbalancer

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

func listenerAttrs() []schema.Attr {
	timeout := func(name string) schema.Attr {
		return schema.Attr{Name: name, Type: schema.Int, Modes: "cu", Max: schema.MaxTimeout}
	}
	return []schema.Attr{
		{Name: "loadbalancer_id", Type: schema.UUID, Modes: "c!"},
		{Name: "protocol", Type: schema.Enum, Modes: "c!", Values: []string{"SCTP", "TERMINATED_HTTPS", "HTTP", "PROMETHEUS", "HTTPS", "TCP", "UDP"}},
		{Name: "protocol_port", Type: schema.Int, Modes: "c!", Min: 1, Max: 65535}, {Name: "name", Type: schema.Text, Modes: "cu"},
		{Name: "description", Type: schema.Text, Modes: "cu"}, {Name: "admin_state_up", Type: schema.Bool, Modes: "cu"}, {Name: "tags", Type: schema.Tags, Modes: "cu"},
		{Name: "connection_limit", Type: schema.Int, Modes: "cu", Min: -1, Max: schema.MaxNumber}, {Name: "default_pool_id", Type: schema.UUID, Modes: "cu"},
		{Name: "default_pool", Type: schema.Any, Modes: "c"}, {Name: "l7policies", Type: schema.Any, Modes: "c"}, {Name: "insert_headers", Type: schema.Any, Modes: "cu"},
		timeout("timeout_client_data"), timeout("timeout_member_connect"), timeout("timeout_member_data"), timeout("timeout_tcp_inspect"),
		{Name: "default_tls_container_ref", Type: schema.Text, Modes: "cu"}, {Name: "sni_container_refs", Type: schema.Tags, Modes: "cu"},
		{Name: "client_ca_tls_container_ref", Type: schema.Text, Modes: "cu"}, {Name: "client_crl_container_ref", Type: schema.Text, Modes: "cu"},
		{Name: "client_authentication", Type: schema.Enum, Modes: "cu", Values: []string{"NONE", "OPTIONAL", "MANDATORY"}},
		{Name: "allowed_cidrs", Type: schema.CIDRs, Modes: "cu"}, {Name: "tls_ciphers", Type: schema.Any, Modes: "cu"}, {Name: "tls_versions", Type: schema.Any, Modes: "cu"},
		{Name: "alpn_protocols", Type: schema.Any, Modes: "cu"}, {Name: "project_id", Type: schema.Text, Modes: "c"},
	}
}

func (s *Octavia) listenerKind() *lbKind {
	ownerID := func(x lbItem) string { return x.owner().id }
	return &lbKind{
		one: "listener", many: "listeners", label: "Listener", argument: "listener_.listener",
		attrs:   listenerAttrs(),
		filters: map[string]func(lbItem) string{"loadbalancer_id": ownerID, "load_balancer_id": ownerID},
		all:     func(*core.Call) ([]lbItem, error) { return items(byAge(s.listeners)), nil },
		get:     func(_ *core.Call, id string) (lbItem, bool) { x, is := s.listeners[id]; return x, is },
		view:    func(x lbItem) core.Object { return listenerView(x.(*listener)) },
		create:  s.createListener,
		update:  func(_ *core.Call, x lbItem, in dialect.Fields) error { return s.updateListener(x.(*listener), in) },
		remove: func(_ *core.Call, x lbItem) error {
			l := x.(*listener)
			if err := l.lb.mutable(); err != nil {
				return err
			}
			s.pend(l.lb, pendingDelete, l)
			return nil
		},
	}
}

func listenerView(x *listener) core.Object {
	o := x.view(core.Object{
		"protocol": x.protocol, "protocol_port": x.port, "connection_limit": x.limit, "default_tls_container_ref": x.tls,
		"sni_container_refs": append([]string{}, x.sni...), "default_pool_id": nil, "l7policies": []any{}, "insert_headers": x.insertHeaders,
		"loadbalancers": []core.Object{{"id": x.lb.id}}, "timeout_client_data": x.timeouts.client, "timeout_member_connect": x.timeouts.connect,
		"timeout_member_data": x.timeouts.member, "timeout_tcp_inspect": x.timeouts.inspect, "client_ca_tls_container_ref": nil,
		"client_authentication": "NONE", "client_crl_container_ref": nil, "allowed_cidrs": nil, "tls_ciphers": nil, "tls_versions": nil, "alpn_protocols": nil,
	})
	if x.pool != nil {
		o["default_pool_id"] = x.pool.id
	}
	if len(x.cidrs) > 0 {
		o["allowed_cidrs"] = x.cidrs
	}
	if x.insertHeaders == nil {
		o["insert_headers"] = core.Object{}
	}
	return o
}

func (s *Octavia) createListener(c *core.Call, in dialect.Fields) (lbItem, error) {
	lb := s.lbs[in.Text("loadbalancer_id")]
	if lb == nil || !c.Sees(lb.project) {
		return nil, schema.ClientFault(http.StatusNotFound, "Load Balancer %s not found.", in.Text("loadbalancer_id"))
	}
	if in.Given("default_pool") || len(in.Objects("l7policies")) > 0 {
		return nil, nestedFault()
	}
	p, err := s.defaultPool(lb, in)
	if err != nil {
		return nil, err
	}
	if err := lb.mutable(); err != nil {
		return nil, err
	}
	l, err := s.buildListener(lb, in)
	if err != nil {
		return nil, err
	}
	if err := l.use(p); err != nil {
		return nil, err
	}
	lb.listeners = append(lb.listeners, l)
	s.listeners[l.id] = l
	s.pend(lb, pendingCreate, l)
	if p != nil {
		touch(p)
	}
	return l, nil
}

// nestedFault is how Zed breaks on nested objects outside of the creation of a load balancer.
func nestedFault() *core.Error {
	return core.Errorf(http.StatusInternalServerError, "Server", "'dict' object has no attribute '_sa_instance_state'")
}

// defaultPool finds the pool that a body names.
func (s *Octavia) defaultPool(lb *loadBalancer, in dialect.Fields) (*pool, error) {
	id := in.Text("default_pool_id")
	if id == "" {
		return nil, nil
	}
	p := s.pools[id]
	if p == nil {
		return nil, schema.ClientFault(http.StatusNotFound, "Pool %s not found.", id)
	}
	if p.lb != lb {
		return nil, schema.ClientFault(http.StatusBadRequest, "Pool %s is on another load balancer.", id)
	}
	return p, nil
}

// poolProtocols are the protocols of pools that a listener's protocol goes with.
func poolProtocols() map[string][]string {
	return map[string][]string{
		"TCP": {"HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"}, "HTTP": {"HTTP", "PROXY", "PROXYV2"}, "HTTPS": {"HTTPS", "PROXY", "PROXYV2", "TCP"},
		"TERMINATED_HTTPS": {"HTTP", "PROXY", "PROXYV2"}, "UDP": {"UDP"}, "SCTP": {"SCTP"},
	}
}

// use sets a listener's default pool, nil for none.
func (x *listener) use(p *pool) error {
	if p != nil {
		if err := x.fits(p.protocol); err != nil {
			return err
		}
	}
	x.pool = p
	return nil
}

// fits refuses a pool's protocol that does not go with the listener's.
func (x *listener) fits(protocol string) error {
	if !slices.Contains(poolProtocols()[x.protocol], protocol) {
		return schema.ValidationFault("The pool protocol '%s' is invalid while the listener protocol is '%s'.", protocol, x.protocol)
	}
	return nil
}

// buildListener makes a listener that fits among the load balancer's others.
func (s *Octavia) buildListener(lb *loadBalancer, in dialect.Fields) (*listener, error) {
	l := &listener{lbEntity: s.newLBEntity(lb.project), lb: lb, protocol: in.Text("protocol"), port: in.Number("protocol_port", 0)}
	l.describe(in)
	l.limit, l.timeouts = -1, defaultTimeouts()
	for _, o := range lb.listeners {
		if o.port == l.port && transport(o.protocol) == transport(l.protocol) {
			return nil, schema.ClientFault(http.StatusConflict, "Another Listener on this Load Balancer is already using protocol %s and protocol_port %d", o.protocol, o.port)
		}
	}
	return l, s.setListener(l, in)
}

func defaultTimeouts() listenerTimeouts { return listenerTimeouts{50000, 5000, 50000, 0} }

// transport is the protocol below a listener's.
func transport(protocol string) string {
	if protocol == "UDP" || protocol == "SCTP" {
		return protocol
	}
	return "TCP"
}

// setListener applies a validated body; null takes an attribute back to its default.
func (s *Octavia) setListener(l *listener, in dialect.Fields) error {
	if err := s.checkListener(l, in); err != nil {
		return err
	}
	def := defaultTimeouts()
	for _, n := range []struct {
		name string
		to   *int
		def  int
	}{
		{"connection_limit", &l.limit, -1}, {"timeout_client_data", &l.timeouts.client, def.client}, {"timeout_member_connect", &l.timeouts.connect, def.connect},
		{"timeout_member_data", &l.timeouts.member, def.member}, {"timeout_tcp_inspect", &l.timeouts.inspect, def.inspect},
	} {
		if in.Has(n.name) {
			*n.to = in.Number(n.name, n.def)
		}
	}
	if in.Has("allowed_cidrs") {
		l.cidrs = nil
		if err := in.Into("allowed_cidrs", &l.cidrs); err != nil {
			return err
		}
	}
	if in.Has("default_tls_container_ref") {
		if l.tls = nil; in.Given("default_tls_container_ref") {
			l.tls = in.Text("default_tls_container_ref")
		}
	}
	if in.Has("sni_container_refs") {
		l.sni = nil
		if err := in.Into("sni_container_refs", &l.sni); err != nil {
			return err
		}
	}
	if in.Has("insert_headers") {
		l.insertHeaders = nil
		return in.Into("insert_headers", &l.insertHeaders)
	}
	return nil
}

// checkListener refuses what does not fit the listener's protocol, VIP or provider.
func (s *Octavia) checkListener(l *listener, in dialect.Fields) error {
	var headers map[string]any
	if err := in.Into("insert_headers", &headers); err != nil {
		return err
	}
	http7 := l.protocol == "HTTP" || l.protocol == "TERMINATED_HTTPS"
	if len(headers) > 0 && !http7 {
		return schema.ClientFault(http.StatusBadRequest, "insert-headers is not a valid option for a %s protocol listener.", l.protocol)
	}
	if bad := unknownHeaders(headers, l.protocol); len(bad) > 0 {
		return schema.ClientFault(http.StatusBadRequest, "dict_keys(['%s']) is not a valid option for insert_headers", strings.Join(bad, "', '"))
	}
	if err := s.checkCertificates(l, in); err != nil {
		return err
	}
	var cidrs []string
	if err := in.Into("allowed_cidrs", &cidrs); err != nil {
		return err
	}
	for _, v := range cidrs {
		if p, err := netip.ParsePrefix(v); err == nil && !sameFamily(p.Addr(), l.lb.vip) {
			return schema.ValidationFault("CIDR %s IP version incompatible with VIP %s IP version.", v, l.lb.vip)
		}
	}
	if l.lb.provider != ovn {
		return nil
	}
	if t := transport(l.protocol); t != l.protocol {
		return schema.Unsupported("OVN provider does not support %s protocol", l.protocol)
	}
	if len(cidrs) > 0 {
		return schema.Unsupported("OVN provider does not support allowed_cidrs option")
	}
	return nil
}

func unknownHeaders(headers map[string]any, protocol string) []string {
	known := []string{"X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto"}
	if protocol == "TERMINATED_HTTPS" {
		known = append(known, "X-SSL-Client-Verify", "X-SSL-Client-Has-Cert", "X-SSL-Client-DN", "X-SSL-Client-CN",
			"X-SSL-Issuer", "X-SSL-Client-SHA1", "X-SSL-Client-Not-Before", "X-SSL-Client-Not-After")
	}
	var bad []string
	for h := range headers {
		if !slices.Contains(known, h) {
			bad = append(bad, h)
		}
	}
	slices.Sort(bad)
	return bad
}

// checkCertificates refuses TERMINATED_HTTPS without certificates, and what Barbican does not have.
func (s *Octavia) checkCertificates(l *listener, in dialect.Fields) error {
	if l.protocol != "TERMINATED_HTTPS" {
		return nil
	}
	var refs []string
	if err := in.Into("sni_container_refs", &refs); err != nil {
		return err
	}
	if ref := in.Text("default_tls_container_ref"); ref != "" {
		refs = append([]string{ref}, refs...)
	}
	if len(refs) == 0 && l.tls == nil && len(l.sni) == 0 {
		return schema.ValidationFault("An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.")
	}
	var bad []string
	for _, ref := range refs {
		if !s.hasCertificate(ref) {
			bad = append(bad, "'"+ref+"'")
		}
	}
	if len(bad) > 0 {
		return schema.ClientFault(http.StatusBadRequest, "Could not retrieve certificate: [%s]", strings.Join(bad, ", "))
	}
	return nil
}

// hasCertificate reports whether Barbican has the secret or container of a reference.
func (s *Octavia) hasCertificate(ref string) bool {
	at := strings.LastIndex(ref, "/")
	return s.opts.HasCertificate(ref[at+1:])
}

func (s *Octavia) updateListener(l *listener, in dialect.Fields) error {
	if in.Has("default_pool_id") {
		p, err := s.defaultPool(l.lb, in)
		if err != nil {
			return err
		}
		if err := l.lb.mutable(); err != nil {
			return err
		}
		if err := l.use(p); err != nil {
			return err
		}
	}
	if err := l.lb.mutable(); err != nil {
		return err
	}
	if err := s.setListener(l, in); err != nil {
		return err
	}
	s.pend(l.lb, pendingUpdate, l)
	return nil
}
