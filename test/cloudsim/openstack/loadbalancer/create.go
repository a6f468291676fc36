package loadbalancer

import (
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

// graph builds the listeners, pools, members and monitors that come with a new load balancer.
// Nothing of it is known to the simulator before adopt.
func (s *Octavia) graph(lb *loadBalancer, in dialect.Fields) error {
	const place = "load_balancer.loadbalancer"
	named := map[string]*pool{}
	for _, p := range in.Objects("pools") {
		if err := s.graphPool(lb, p, place+".pools", named); err != nil {
			return err
		}
	}
	listeners := in.Objects("listeners")
	for _, l := range listeners {
		if err := schema.Check(nestedAttrs(listenerAttrs(), "loadbalancer_id", "project_id"), place+".listeners", l, true); err != nil {
			return err
		}
		if p := l.Object("default_pool"); len(p) > 0 {
			if err := s.graphPool(lb, p, place+".listeners.default_pool", named); err != nil {
				return err
			}
		}
	}
	for _, in := range listeners {
		l, err := s.buildListener(lb, in)
		if err != nil {
			return err
		}
		if p := in.Object("default_pool"); len(p) > 0 {
			if named[p.Text("name")] == nil {
				return schema.ValidationFault("Pool '%s' was referenced but no full definition was found.", p.Text("name"))
			}
			if err := l.use(named[p.Text("name")]); err != nil {
				return err
			}
		}
		lb.listeners = append(lb.listeners, l)
	}
	return nil
}

// nestedAttrs is a kind's attributes without those that its place in a body already tells.
func nestedAttrs(attrs []schema.Attr, without ...string) []schema.Attr {
	var out []schema.Attr
	for _, a := range attrs {
		skip := false
		for _, w := range without {
			skip = skip || a.Name == w
		}
		if !skip {
			out = append(out, a)
		}
	}
	return out
}

// graphPool builds one pool, unless the object only refers to one by its name.
func (s *Octavia) graphPool(lb *loadBalancer, in dialect.Fields, place string, named map[string]*pool) error {
	name := in.Text("name")
	if !in.Given("protocol") && !in.Given("lb_algorithm") && name != "" {
		return nil
	}
	if err := schema.Check(nestedAttrs(poolAttrs(), "loadbalancer_id", "listener_id", "project_id"), place, in, true); err != nil {
		return err
	}
	if name == "" {
		return schema.ValidationFault("Pools must be named when creating a fully populated loadbalancer.")
	}
	if named[name] != nil {
		return schema.ValidationFault("Pool names must be unique when creating a fully populated loadbalancer.")
	}
	p, err := s.buildPool(lb, in)
	if err != nil {
		return err
	}
	if h := in.Object("healthmonitor"); len(h) > 0 {
		if err := schema.Check(nestedAttrs(monitorAttrs(), "pool_id", "project_id"), place+".healthmonitor", h, true); err != nil {
			return err
		}
		if p.monitor, err = s.buildMonitor(p, h); err != nil {
			return err
		}
	}
	for _, in := range in.Objects("members") {
		if err := schema.Check(nestedAttrs(memberAttrs(), "project_id"), place+".members", in, true); err != nil {
			return err
		}
		m, err := s.buildMember(p, in)
		if err != nil {
			return err
		}
		if o := p.memberAt(m.address, m.port); o != nil {
			return duplicateMember(o)
		}
		p.members = append(p.members, m)
	}
	lb.pools = append(lb.pools, p)
	named[name] = p
	return nil
}
