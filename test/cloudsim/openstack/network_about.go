package openstack

import (
	"encoding/json"
	"net/http"
	"slices"
)

func networkVersions(c *call) (*reply, error) {
	return ok(object{"versions": []object{{"id": "v2.0", "status": "CURRENT", "links": []object{{"rel": "self", "href": c.url("/v2.0/")}}}}})
}

func networkResources(c *call) (*reply, error) {
	out := []object{}
	for _, name := range []string{"network", "subnet", "subnetpool", "port"} {
		out = append(out, object{"name": name, "collection": name + "s", "links": []object{{"rel": "self", "href": c.url("/v2.0/" + name + "s")}}})
	}
	return ok(object{"resources": out})
}

func extensionView(e [4]string) object {
	return object{"alias": e[0], "name": e[1], "description": e[2], "updated": e[3], "links": []object{}}
}

// extensions are those that are there, as loaded and not hidden; lock held.
func (s *Neutron) extensions() [][4]string {
	all := extensions()
	if s.opts.Trunks {
		all = append(all, trunkExtensions()...)
	}
	return slices.DeleteFunc(all, func(e [4]string) bool { return s.hidden[e[0]] })
}

func (s *Neutron) listExtensions(c *call) (*reply, error) {
	out := []object{}
	for _, e := range s.extensions() {
		out = append(out, extensionView(e))
	}
	return ok(object{"extensions": out})
}

func (s *Neutron) showExtension(c *call) (*reply, error) {
	alias := c.param("alias")
	for _, e := range s.extensions() {
		if e[0] == alias {
			return ok(object{"extension": extensionView(e)})
		}
	}
	return nil, &apiError{
		status: http.StatusNotFound, kind: "HTTPNotFound", message: "Extension with alias " + alias + " does not exist", contentType: "text/plain; charset=UTF-8",
		body: []byte("404 Not Found\n\nThe resource could not be found.\n\n Extension with alias " + alias + " does not exist  "),
	}
}

// HideExtension takes one of Neutron's extensions away, for tests of clouds without it: it is no
// longer listed, and the calls of extraroute-atomic are no longer served.
func (s *Neutron) HideExtension(alias string) {
	s.Lock()
	defer s.Unlock()
	if s.hidden == nil {
		s.hidden = map[string]bool{}
	}
	s.hidden[alias] = true
}

// needs wraps a handler that belongs to an extension.
func (s *Neutron) needs(alias string, h handlerFunc) handlerFunc {
	return func(c *call) (*reply, error) {
		if s.hidden[alias] {
			return noSuchRoute(c)
		}
		return h(c)
	}
}

// quotaNames are what Neutron has quotas for.
func quotaNames() []string {
	return []string{"network", "subnet", "subnetpool", "port", "router", "floatingip", "rbac_policy", "security_group", "security_group_rule"}
}

// quotaLimit is a quota; only that of RBAC policies is not lifted.
func quotaLimit(name string) int {
	if name == "rbac_policy" {
		return 10
	}
	return -1
}

func (s *Neutron) quotaRoutes(r *router) {
	quota := func(c *call) (*reply, error) {
		if !c.sees(c.param("project")) {
			return nil, errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:get_quota is disallowed by policy")
		}
		out := object{}
		for _, n := range quotaNames() {
			out[n] = quotaLimit(n)
		}
		return ok(object{"quota": out})
	}
	r.handle("GET /v2.0/quotas", func(*call) (*reply, error) {
		return nil, errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:get_quota is disallowed by policy")
	})
	r.handle("GET /v2.0/quotas/{project}", quota)
	r.handle("GET /v2.0/quotas/{project}/default", quota)
	r.handle("GET /v2.0/quotas/{project}/details.json", s.quotaUsage)
}

func (s *Neutron) quotaUsage(c *call) (*reply, error) {
	used := map[string]int{}
	for _, k := range s.netKinds() {
		for _, x := range k.all() {
			if x.base().project == c.param("project") {
				used[k.one]++
			}
		}
	}
	out := object{}
	for _, n := range quotaNames() {
		out[n] = object{"limit": quotaLimit(n), "used": used[n], "reserved": 0}
	}
	return ok(object{"quota": out})
}

// rawNull is the body "null".
func rawNull() json.RawMessage { return json.RawMessage("null") }
