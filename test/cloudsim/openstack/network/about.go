package network

import (
	"net/http"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

func networkVersions(c *core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"versions": []core.Object{{"id": "v2.0", "status": "CURRENT", "links": []core.Object{{"rel": "self", "href": c.URL("/v2.0/")}}}}})
}

func networkResources(c *core.Call) (*core.Reply, error) {
	out := []core.Object{}
	for _, name := range []string{"network", "subnet", "subnetpool", "port"} {
		out = append(out, core.Object{"name": name, "collection": name + "s", "links": []core.Object{{"rel": "self", "href": c.URL("/v2.0/" + name + "s")}}})
	}
	return core.OK(core.Object{"resources": out})
}

func extensionView(e [4]string) core.Object {
	return core.Object{"alias": e[0], "name": e[1], "description": e[2], "updated": e[3], "links": []core.Object{}}
}

// extensions are those that are there, as loaded and not hidden; lock held.
func (s *Neutron) extensions() [][4]string {
	all := extensions()
	if s.opts.Trunks {
		all = append(all, trunkExtensions()...)
	}
	return slices.DeleteFunc(all, func(e [4]string) bool { return s.hidden[e[0]] })
}

func (s *Neutron) listExtensions(c *core.Call) (*core.Reply, error) {
	out := []core.Object{}
	for _, e := range s.extensions() {
		out = append(out, extensionView(e))
	}
	return core.OK(core.Object{"extensions": out})
}

func (s *Neutron) showExtension(c *core.Call) (*core.Reply, error) {
	alias := c.Param("alias")
	for _, e := range s.extensions() {
		if e[0] == alias {
			return core.OK(core.Object{"extension": extensionView(e)})
		}
	}
	return nil, &core.Error{
		Status: http.StatusNotFound, Kind: "HTTPNotFound", Message: "Extension with alias " + alias + " does not exist", ContentType: "text/plain; charset=UTF-8",
		Body: []byte("404 Not Found\n\nThe resource could not be found.\n\n Extension with alias " + alias + " does not exist  "),
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
func (s *Neutron) needs(alias string, h core.HandlerFunc) core.HandlerFunc {
	return func(c *core.Call) (*core.Reply, error) {
		if s.hidden[alias] {
			return core.NoSuchRoute(c)
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

func (s *Neutron) quotaRoutes(r *core.Router) {
	quota := func(c *core.Call) (*core.Reply, error) {
		if !c.Sees(c.Param("project")) {
			return nil, core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:get_quota is disallowed by policy")
		}
		out := core.Object{}
		for _, n := range quotaNames() {
			out[n] = quotaLimit(n)
		}
		return core.OK(core.Object{"quota": out})
	}
	r.Handle("GET /v2.0/quotas", func(*core.Call) (*core.Reply, error) {
		return nil, core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:get_quota is disallowed by policy")
	})
	r.Handle("GET /v2.0/quotas/{project}", quota)
	r.Handle("GET /v2.0/quotas/{project}/default", quota)
	r.Handle("GET /v2.0/quotas/{project}/details.json", s.quotaUsage)
}

func (s *Neutron) quotaUsage(c *core.Call) (*core.Reply, error) {
	used := map[string]int{}
	for _, k := range s.netKinds() {
		for _, x := range k.All() {
			if x.Base().Project == c.Param("project") {
				used[k.One]++
			}
		}
	}
	out := core.Object{}
	for _, n := range quotaNames() {
		out[n] = core.Object{"limit": quotaLimit(n), "used": used[n], "reserved": 0}
	}
	return core.OK(core.Object{"quota": out})
}
