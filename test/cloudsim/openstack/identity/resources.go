package identity

import (
	"net/http"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

func (s *Keystone) identityVersionBody() core.Object {
	return core.Object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []core.Object{{"rel": "self", "href": s.URL + "/identity/v3/"}},
		"media-types": []core.Object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func (s *Keystone) identityVersions(*core.Call) (*core.Reply, error) {
	rep := &core.Reply{Status: http.StatusMultipleChoices, Body: core.Object{"versions": core.Object{"values": []core.Object{s.identityVersionBody()}}}}
	return rep.Set("Location", s.URL+"/identity/v3/"), nil
}

func (s *Keystone) identityVersion(*core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"version": s.identityVersionBody()})
}

// identityList is a list with Keystone's links.
func identityList(c *core.Call, key string, items []core.Object) (*core.Reply, error) {
	self := c.Self()
	if c.Request.URL.RawQuery != "" {
		self += "?" + c.Request.URL.RawQuery
	}
	if items == nil {
		items = []core.Object{}
	}
	return core.OK(core.Object{key: items, "links": core.Object{"next": nil, "self": self, "previous": nil}})
}

func (s *Keystone) identityLink(path string) core.Object {
	return core.Object{"self": s.AuthURL() + path}
}

func (s *Keystone) projectBody(p *project) core.Object {
	return core.Object{
		"id": p.id, "name": p.name, "domain_id": domainID, "description": p.description, "enabled": true,
		"parent_id": domainID, "is_domain": false, "tags": []string{}, "options": core.Object{}, "links": s.identityLink("/projects/" + p.id),
	}
}

func (s *Keystone) userBody(u *user) core.Object {
	out := core.Object{
		"id": u.id, "name": u.name, "domain_id": domainID, "enabled": true,
		"password_expires_at": written(u.passwordExpires), "options": core.Object{}, "links": s.identityLink("/users/" + u.id),
	}
	if u.defaultProject != "" {
		out["default_project_id"] = u.defaultProject
	}
	return out
}

func (s *Keystone) domainBody() core.Object {
	return core.Object{
		"id": domainID, "name": "Default", "description": "The default domain", "enabled": true,
		"tags": []string{}, "options": core.Object{}, "links": s.identityLink("/domains/" + domainID),
	}
}

func (s *Keystone) showCatalog(c *core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"catalog": s.catalogBody(c.Project()), "links": s.identityLink("/auth/catalog")})
}

func (s *Keystone) projectsOf(u *user) []core.Object {
	var out []core.Object
	for _, p := range s.projects {
		if len(u.roles[p.id]) > 0 {
			out = append(out, s.projectBody(p))
		}
	}
	return out
}

func (s *Keystone) listOwnProjects(c *core.Call) (*core.Reply, error) {
	return identityList(c, "projects", s.projectsOf(tokenOf(c).user))
}

func (s *Keystone) listOwnDomains(c *core.Call) (*core.Reply, error) {
	return identityList(c, "domains", nil)
}

func (s *Keystone) listOwnSystem(*core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"system": []core.Object{}, "links": s.identityLink("/auth/system")})
}

func (s *Keystone) listProjects(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, p := range s.projects {
		if name := c.Query.Get("name"); name == "" || name == p.name {
			out = append(out, s.projectBody(p))
		}
	}
	return identityList(c, "projects", out)
}

func (s *Keystone) showProject(c *core.Call) (*core.Reply, error) {
	id := c.Param("id")
	if !c.Sees(id) {
		return nil, forbiddenAction("identity:get_project")
	}
	if p := s.findProject(&nameOrID{ID: id}); p != nil {
		return core.OK(core.Object{"project": s.projectBody(p)})
	}
	return nil, core.Errorf(http.StatusNotFound, "", "Could not find project: %s.", id)
}

func (s *Keystone) listUsers(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, u := range s.users {
		if name := c.Query.Get("name"); name == "" || name == u.name {
			out = append(out, s.userBody(u))
		}
	}
	return identityList(c, "users", out)
}

// pathUser is the user of the path, when the caller may look at it.
func (s *Keystone) pathUser(c *core.Call, action string) (*user, error) {
	id := c.Param("user")
	if id != tokenOf(c).user.id && !c.Admin() {
		return nil, forbiddenAction(action)
	}
	if u := s.findUser(&userRef{nameOrID: nameOrID{ID: id}}); u != nil {
		return u, nil
	}
	return nil, core.Errorf(http.StatusNotFound, "", "Could not find user: %s.", id)
}

func (s *Keystone) showUser(c *core.Call) (*core.Reply, error) {
	u, err := s.pathUser(c, "identity:get_user")
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"user": s.userBody(u)})
}

func (s *Keystone) listUserProjects(c *core.Call) (*core.Reply, error) {
	u, err := s.pathUser(c, "identity:list_user_projects")
	if err != nil {
		return nil, err
	}
	return identityList(c, "projects", s.projectsOf(u))
}

func (s *Keystone) listDomains(c *core.Call) (*core.Reply, error) {
	return identityList(c, "domains", []core.Object{s.domainBody()})
}

func (s *Keystone) showDomain(c *core.Call) (*core.Reply, error) {
	if id := c.Param("id"); id != domainID {
		if !c.Admin() {
			return nil, forbiddenAction("identity:get_domain")
		}
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find domain: %s.", id)
	}
	return core.OK(core.Object{"domain": s.domainBody()})
}

func (s *Keystone) roleBody(r role) core.Object {
	options := core.Object{}
	if r.name == "admin" || r.name == "member" || r.name == "reader" {
		options["immutable"] = true
	}
	return core.Object{"id": r.id, "name": r.name, "domain_id": nil, "description": nil, "options": options}
}

func (s *Keystone) listRoles(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, r := range s.roles {
		body := s.roleBody(r)
		body["links"] = s.identityLink("/roles/" + r.id)
		out = append(out, body)
	}
	return identityList(c, "roles", out)
}

func (s *Keystone) listRegions(c *core.Call) (*core.Reply, error) {
	names := []string{s.region}
	for _, r := range s.further {
		names = append(names, r.name)
	}
	var out []core.Object
	for _, name := range names {
		out = append(out, core.Object{"id": name, "description": "", "parent_region_id": nil, "links": s.identityLink("/regions/" + name)})
	}
	return identityList(c, "regions", out)
}

func (s *Keystone) serviceBody(svc catalogService) core.Object {
	return core.Object{"name": svc.name, "id": svc.id, "type": svc.typ, "enabled": true, "links": s.identityLink("/services/" + svc.id)}
}

func (s *Keystone) listServices(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, svc := range s.catalog {
		if typ := c.Query.Get("type"); typ == "" || typ == svc.typ {
			out = append(out, s.serviceBody(svc))
		}
	}
	return identityList(c, "services", out)
}

func (s *Keystone) showService(c *core.Call) (*core.Reply, error) {
	id := c.Param("id")
	i := slices.IndexFunc(s.catalog, func(svc catalogService) bool { return svc.id == id })
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find service: %s.", id)
	}
	return core.OK(core.Object{"service": s.serviceBody(s.catalog[i])})
}

func (s *Keystone) listEndpoints(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, svc := range s.catalog {
		for _, e := range s.endpointsOf(svc) {
			for i, iface := range interfaces {
				out = append(out, core.Object{
					"id": e.svc.endpoints[i], "interface": iface, "region_id": e.region, "region": e.region, "service_id": svc.id,
					"url": e.svc.url("$(project_id)s"), "enabled": true, "links": s.identityLink("/endpoints/" + e.svc.endpoints[i]),
				})
			}
		}
	}
	return identityList(c, "endpoints", out)
}
