package openstack

import (
	"net/http"
	"slices"
)

func (s *Sim) identityVersionBody() object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": s.url + "/identity/v3/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func (s *Sim) identityVersions(*call) (*reply, error) {
	rep := &reply{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{s.identityVersionBody()}}}}
	return rep.set("Location", s.url+"/identity/v3/"), nil
}

func (s *Sim) identityVersion(*call) (*reply, error) {
	return ok(object{"version": s.identityVersionBody()})
}

// identityList is a list with Keystone's links.
func identityList(c *call, key string, items []object) (*reply, error) {
	self := c.sim.url + c.r.URL.Path
	if c.r.URL.RawQuery != "" {
		self += "?" + c.r.URL.RawQuery
	}
	if items == nil {
		items = []object{}
	}
	return ok(object{key: items, "links": object{"next": nil, "self": self, "previous": nil}})
}

func (s *Sim) identityLink(path string) object { return object{"self": s.AuthURL() + path} }

func (s *Sim) projectBody(p *project) object {
	return object{
		"id": p.id, "name": p.name, "domain_id": domainID, "description": p.description, "enabled": true,
		"parent_id": domainID, "is_domain": false, "tags": []string{}, "options": object{}, "links": s.identityLink("/projects/" + p.id),
	}
}

func (s *Sim) userBody(u *user) object {
	out := object{
		"id": u.id, "name": u.name, "domain_id": domainID, "enabled": true,
		"password_expires_at": nil, "options": object{}, "links": s.identityLink("/users/" + u.id),
	}
	if u.defaultProject != "" {
		out["default_project_id"] = u.defaultProject
	}
	return out
}

func (s *Sim) domainBody() object {
	return object{
		"id": domainID, "name": "Default", "description": "The default domain", "enabled": true,
		"tags": []string{}, "options": object{}, "links": s.identityLink("/domains/" + domainID),
	}
}

func (s *Sim) showCatalog(c *call) (*reply, error) {
	return ok(object{"catalog": s.catalogBody(c.project()), "links": s.identityLink("/auth/catalog")})
}

func (s *Sim) projectsOf(u *user) []object {
	var out []object
	for _, p := range s.identity.projects {
		if len(u.roles[p.id]) > 0 {
			out = append(out, s.projectBody(p))
		}
	}
	return out
}

func (s *Sim) listOwnProjects(c *call) (*reply, error) {
	return identityList(c, "projects", s.projectsOf(c.tok.user))
}

func (s *Sim) listOwnDomains(c *call) (*reply, error) { return identityList(c, "domains", nil) }

func (s *Sim) listOwnSystem(*call) (*reply, error) {
	return ok(object{"system": []object{}, "links": s.identityLink("/auth/system")})
}

func (s *Sim) listProjects(c *call) (*reply, error) {
	var out []object
	for _, p := range s.identity.projects {
		if name := c.query.Get("name"); name == "" || name == p.name {
			out = append(out, s.projectBody(p))
		}
	}
	return identityList(c, "projects", out)
}

func (s *Sim) showProject(c *call) (*reply, error) {
	id := c.param("id")
	if !c.sees(id) {
		return nil, forbiddenAction("identity:get_project")
	}
	if p := s.findProject(&nameOrID{ID: id}); p != nil {
		return ok(object{"project": s.projectBody(p)})
	}
	return nil, errorf(http.StatusNotFound, "", "Could not find project: %s.", id)
}

func (s *Sim) listUsers(c *call) (*reply, error) {
	var out []object
	for _, u := range s.identity.users {
		if name := c.query.Get("name"); name == "" || name == u.name {
			out = append(out, s.userBody(u))
		}
	}
	return identityList(c, "users", out)
}

// pathUser is the user of the path, when the caller may look at it.
func (s *Sim) pathUser(c *call, action string) (*user, error) {
	id := c.param("user")
	if id != c.tok.user.id && !c.tok.admin {
		return nil, forbiddenAction(action)
	}
	if u := s.findUser(&userRef{nameOrID: nameOrID{ID: id}}); u != nil {
		return u, nil
	}
	return nil, errorf(http.StatusNotFound, "", "Could not find user: %s.", id)
}

func (s *Sim) showUser(c *call) (*reply, error) {
	u, err := s.pathUser(c, "identity:get_user")
	if err != nil {
		return nil, err
	}
	return ok(object{"user": s.userBody(u)})
}

func (s *Sim) listUserProjects(c *call) (*reply, error) {
	u, err := s.pathUser(c, "identity:list_user_projects")
	if err != nil {
		return nil, err
	}
	return identityList(c, "projects", s.projectsOf(u))
}

func (s *Sim) listDomains(c *call) (*reply, error) {
	return identityList(c, "domains", []object{s.domainBody()})
}

func (s *Sim) showDomain(c *call) (*reply, error) {
	if id := c.param("id"); id != domainID {
		if !c.tok.admin {
			return nil, forbiddenAction("identity:get_domain")
		}
		return nil, errorf(http.StatusNotFound, "", "Could not find domain: %s.", id)
	}
	return ok(object{"domain": s.domainBody()})
}

func (s *Sim) roleBody(r role) object {
	options := object{}
	if r.name == "admin" || r.name == "member" || r.name == "reader" {
		options["immutable"] = true
	}
	return object{"id": r.id, "name": r.name, "domain_id": nil, "description": nil, "options": options}
}

func (s *Sim) listRoles(c *call) (*reply, error) {
	var out []object
	for _, r := range s.identity.roles {
		body := s.roleBody(r)
		body["links"] = s.identityLink("/roles/" + r.id)
		out = append(out, body)
	}
	return identityList(c, "roles", out)
}

func (s *Sim) listRegions(c *call) (*reply, error) {
	names := []string{s.opts.Region}
	for _, r := range s.identity.further {
		names = append(names, r.name)
	}
	var out []object
	for _, name := range names {
		out = append(out, object{"id": name, "description": "", "parent_region_id": nil, "links": s.identityLink("/regions/" + name)})
	}
	return identityList(c, "regions", out)
}

func (s *Sim) serviceBody(svc catalogService) object {
	return object{"name": svc.name, "id": svc.id, "type": svc.typ, "enabled": true, "links": s.identityLink("/services/" + svc.id)}
}

func (s *Sim) listServices(c *call) (*reply, error) {
	var out []object
	for _, svc := range s.identity.catalog {
		if typ := c.query.Get("type"); typ == "" || typ == svc.typ {
			out = append(out, s.serviceBody(svc))
		}
	}
	return identityList(c, "services", out)
}

func (s *Sim) showService(c *call) (*reply, error) {
	id := c.param("id")
	i := slices.IndexFunc(s.identity.catalog, func(svc catalogService) bool { return svc.id == id })
	if i < 0 {
		return nil, errorf(http.StatusNotFound, "", "Could not find service: %s.", id)
	}
	return ok(object{"service": s.serviceBody(s.identity.catalog[i])})
}

func (s *Sim) listEndpoints(c *call) (*reply, error) {
	var out []object
	for _, svc := range s.identity.catalog {
		for _, e := range s.endpointsOf(svc) {
			for i, iface := range interfaces {
				out = append(out, object{
					"id": e.svc.endpoints[i], "interface": iface, "region_id": e.region, "region": e.region, "service_id": svc.id,
					"url": e.svc.url("$(project_id)s"), "enabled": true, "links": s.identityLink("/endpoints/" + e.svc.endpoints[i]),
				})
			}
		}
	}
	return identityList(c, "endpoints", out)
}
