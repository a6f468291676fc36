package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// python shows a route as Neutron's messages do.
func (r hostRoute) python() string {
	return fmt.Sprintf("{'destination': '%s', 'nexthop': '%s'}", r.Destination, r.NextHop)
}

// parseRoutes checks a router's routes as a PUT of the router takes them.
func parseRoutes(raw json.RawMessage) ([]hostRoute, error) {
	bad := func(format string, args ...any) ([]hostRoute, error) {
		return nil, dialect.BadRequest("Invalid input for routes. Reason: "+format, args...)
	}
	if string(raw) == "null" {
		return nil, nil
	}
	var in []map[string]any
	if json.Unmarshal(raw, &in) != nil {
		return bad("Invalid data format for hostroute: '%s'.", dialect.Plain(raw))
	}
	var out []hostRoute
	for _, m := range in {
		destination, hasDestination := m["destination"].(string)
		hop, hasHop := m["nexthop"].(string)
		if !hasDestination || !hasHop || len(m) != 2 {
			return bad("Validation of dictionary's keys failed. Expected keys: {'destination', 'nexthop'} Provided keys: %s.", pythonKeys(m))
		}
		if _, err := parseCIDR("routes", destination); err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(hop); err != nil {
			return bad("'%s' is not a valid IP address.", hop)
		}
		r := hostRoute{Destination: destination, NextHop: hop}
		if slices.Contains(out, r) {
			return bad("Duplicate hostroute '%s'.", r.python())
		}
		out = append(out, r)
	}
	return out, nil
}

func pythonKeys(m map[string]any) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, "'"+k+"'")
	}
	slices.Sort(keys)
	return "{" + strings.Join(keys, ", ") + "}"
}

// checkRoutes refuses next hops that the router cannot reach or that are its own.
func (s *Neutron) checkRoutes(r *netRouter, routes []hostRoute) error {
	ports := slices.Clone(r.ifaces)
	if r.gateway != nil {
		ports = append(ports, r.gateway)
	}
	for _, route := range routes {
		hop, err := netip.ParseAddr(route.NextHop)
		reachable := false
		for _, p := range ports {
			for _, ip := range p.fixed {
				if ip.IP == hop {
					return invalidRoutes(routes, "the nexthop is used by router")
				}
				sub := s.subnets[ip.SubnetID]
				reachable = reachable || err == nil && sub != nil && sub.cidr.Contains(hop)
			}
		}
		if !reachable {
			return invalidRoutes(routes, "the nexthop is not connected with router")
		}
	}
	return nil
}

func invalidRoutes(routes []hostRoute, reason string) *core.Error {
	texts := make([]string, len(routes))
	for i, r := range routes {
		texts[i] = r.python()
	}
	return core.Errorf(http.StatusBadRequest, "InvalidRoutes", "Invalid format for routes: [%s], %s", strings.Join(texts, ", "), reason)
}

// changeRoutes answers add_extraroutes and remove_extraroutes. A body they cannot read is an
// internal error in Zed, and so it is here.
func (s *Neutron) changeRoutes(c *core.Call, change func(have, in []hostRoute) []hostRoute) (*core.Reply, error) {
	r, err := s.actedRouter(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Router *struct {
			Routes *[]struct{ Destination, NextHop *string }
		}
	}
	if json.Unmarshal(c.Body, &in) != nil || in.Router == nil || in.Router.Routes == nil {
		return nil, internalError()
	}
	var routes []hostRoute
	for _, x := range *in.Router.Routes {
		if x.Destination == nil || x.NextHop == nil {
			return nil, internalError()
		}
		routes = append(routes, hostRoute{*x.Destination, *x.NextHop})
	}
	next := change(r.routes, routes)
	if err := s.checkRoutes(r, next); err != nil {
		return nil, err
	}
	if !slices.Equal(next, r.routes) {
		r.routes = next
		r.Changed()
	}
	view := routerView(c, r)
	view["distributed"], view["ha"], view["ha_vr_id"] = false, false, 0
	if r.gateway != nil {
		view["gw_port_id"] = r.gateway.ID
	}
	return core.OK(core.Object{"router": view})
}

// internalError is Neutron's answer when it breaks.
func internalError() *core.Error {
	return core.Errorf(http.StatusInternalServerError, "HTTPInternalServerError", "Request Failed: internal server error while processing your request.")
}

func addRoutes(have, in []hostRoute) []hostRoute {
	out := slices.Clone(have)
	for _, r := range in {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func removeRoutes(have, in []hostRoute) []hostRoute {
	return slices.DeleteFunc(slices.Clone(have), func(r hostRoute) bool { return slices.Contains(in, r) })
}

// Route is an extra route of a router.
type Route struct{ Destination, NextHop string }

// RouterRoutes returns the extra routes of the router, of the seeded one when id is "".
func (s *Neutron) RouterRoutes(id string) []Route {
	s.Lock()
	defer s.Unlock()
	r := s.routers[s.routerOr(id)]
	if r == nil {
		return nil
	}
	var out []Route
	for _, x := range r.routes {
		out = append(out, Route(x))
	}
	return out
}

// AddOperatorRoute adds an extra route to the seeded router past the API, as a cloud's operator
// may have; its next hop may be any address.
func (s *Neutron) AddOperatorRoute(destination, nextHop string) {
	s.Lock()
	defer s.Unlock()
	r := s.routers[s.defaults.RouterID]
	r.routes = addRoutes(r.routes, []hostRoute{{destination, nextHop}})
	r.Changed()
}

func (s *Neutron) routerOr(id string) string {
	if id == "" {
		return s.defaults.RouterID
	}
	return id
}
