package openstack

import (
	"net/http"
	"slices"
)

func (s *Keystone) identityVersionBody() object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": s.url + "/identity/v3/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func (s *Keystone) identityVersions(*call) (*reply, error) {
	rep := &reply{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{s.identityVersionBody()}}}}
	return rep.set("Location", s.url+"/identity/v3/"), nil
}

func (s *Keystone) identityVersion(*call) (*reply, error) {
	return ok(object{"version": s.identityVersionBody()})
}

// identityList is a list with Keystone's links.
func identityList(c *call, key string, items []object) (*reply, error) {
	self := c.self()
	if c.r.URL.RawQuery != "" {
		self += "?" + c.r.URL.RawQuery
	}
	if items == nil {
		items = []object{}
	}
	return ok(object{key: items, "links": object{"next": nil, "self": self, "previous": nil}})
}

func (s *Keystone) identityLink(path string) object { return object{"self": s.AuthURL() + path} }

func (s *Keystone) projectBody(p *project) object {
	return object{
		"id": p.id, "name": p.name, "domain_id": domainID, "description": p.description, "enabled": true,
		"parent_id": domainID, "is_domain": false, "tags": []string{}, "options": object{}, "links": s.identityLink("/projects/" + p.id),
	}
}

func (s *Keystone) userBody(u *user) object {
	out := object{
		"id": u.id, "name": u.name, "domain_id": domainID, "enabled": true,
		"password_expires_at": nil, "options": object{}, "links": s.identityLink("/users/" + u.id),
	}
	if u.defaultProject != "" {
		out["default_project_id"] = u.defaultProject
	}
	return out
}

func (s *Keystone) domainBody() object {
	return object{
		"id": domainID, "name": "Default", "description": "The default domain", "enabled": true,
		"tags": []string{}, "options": object{}, "links": s.identityLink("/domains/" + domainID),
	}
}

func (s *Keystone) showCatalog(c *call) (*reply, error) {
	return ok(object{"catalog": s.catalogBody(c.project()), "links": s.identityLink("/auth/catalog")})
}

func (s *Keystone) projectsOf(u *user) []object {
	var out []object
	for _, p := range s.projects {
		if len(u.roles[p.id]) > 0 {
			out = append(out, s.projectBody(p))
		}
	}
	return out
}

func (s *Keystone) listOwnProjects(c *call) (*reply, error) {
	return identityList(c, "projects", s.projectsOf(tokenOf(c).user))
}

func (s *Keystone) listOwnDomains(c *call) (*reply, error) { return identityList(c, "domains", nil) }

func (s *Keystone) listOwnSystem(*call) (*reply, error) {
	return ok(object{"system": []object{}, "links": s.identityLink("/auth/system")})
}

func (s *Keystone) listProjects(c *call) (*reply, error) {
	var out []object
	for _, p := range s.projects {
		if name := c.query.Get("name"); name == "" || name == p.name {
			out = append(out, s.projectBody(p))
		}
	}
	return identityList(c, "projects", out)
}

func (s *Keystone) showProject(c *call) (*reply, error) {
	id := c.param("id")
	if !c.sees(id) {
		return nil, forbiddenAction("identity:get_project")
	}
	if p := s.findProject(&nameOrID{ID: id}); p != nil {
		return ok(object{"project": s.projectBody(p)})
	}
	return nil, errorf(http.StatusNotFound, "", "Could not find project: %s.", id)
}

func (s *Keystone) listUsers(c *call) (*reply, error) {
	var out []object
	for _, u := range s.users {
		if name := c.query.Get("name"); name == "" || name == u.name {
			out = append(out, s.userBody(u))
		}
	}
	return identityList(c, "users", out)
}

// pathUser is the user of the path, when the caller may look at it.
func (s *Keystone) pathUser(c *call, action string) (*user, error) {
	id := c.param("user")
	if id != tokenOf(c).user.id && !c.admin() {
		return nil, forbiddenAction(action)
	}
	if u := s.findUser(&userRef{nameOrID: nameOrID{ID: id}}); u != nil {
		return u, nil
	}
	return nil, errorf(http.StatusNotFound, "", "Could not find user: %s.", id)
}

func (s *Keystone) showUser(c *call) (*reply, error) {
	u, err := s.pathUser(c, "identity:get_user")
	if err != nil {
		return nil, err
	}
	return ok(object{"user": s.userBody(u)})
}

func (s *Keystone) listUserProjects(c *call) (*reply, error) {
	u, err := s.pathUser(c, "identity:list_user_projects")
	if err != nil {
		return nil, err
	}
	return identityList(c, "projects", s.projectsOf(u))
}

func (s *Keystone) listDomains(c *call) (*reply, error) {
	return identityList(c, "domains", []object{s.domainBody()})
}

func (s *Keystone) showDomain(c *call) (*reply, error) {
	if id := c.param("id"); id != domainID {
		if !c.admin() {
			return nil, forbiddenAction("identity:get_domain")
		}
		return nil, errorf(http.StatusNotFound, "", "Could not find domain: %s.", id)
	}
	return ok(object{"domain": s.domainBody()})
}

func (s *Keystone) roleBody(r role) object {
	options := object{}
	if r.name == "admin" || r.name == "member" || r.name == "reader" {
		options["immutable"] = true
	}
	return object{"id": r.id, "name": r.name, "domain_id": nil, "description": nil, "options": options}
}

func (s *Keystone) listRoles(c *call) (*reply, error) {
	var out []object
	for _, r := range s.roles {
		body := s.roleBody(r)
		body["links"] = s.identityLink("/roles/" + r.id)
		out = append(out, body)
	}
	return identityList(c, "roles", out)
}

func (s *Keystone) listRegions(c *call) (*reply, error) {
	names := []string{s.region}
	for _, r := range s.further {
		names = append(names, r.name)
	}
	var out []object
	for _, name := range names {
		out = append(out, object{"id": name, "description": "", "parent_region_id": nil, "links": s.identityLink("/regions/" + name)})
	}
	return identityList(c, "regions", out)
}

func (s *Keystone) serviceBody(svc catalogService) object {
	return object{"name": svc.name, "id": svc.id, "type": svc.typ, "enabled": true, "links": s.identityLink("/services/" + svc.id)}
}

func (s *Keystone) listServices(c *call) (*reply, error) {
	var out []object
	for _, svc := range s.catalog {
		if typ := c.query.Get("type"); typ == "" || typ == svc.typ {
			out = append(out, s.serviceBody(svc))
		}
	}
	return identityList(c, "services", out)
}

func (s *Keystone) showService(c *call) (*reply, error) {
	id := c.param("id")
	i := slices.IndexFunc(s.catalog, func(svc catalogService) bool { return svc.id == id })
	if i < 0 {
		return nil, errorf(http.StatusNotFound, "", "Could not find service: %s.", id)
	}
	return ok(object{"service": s.serviceBody(s.catalog[i])})
}

func (s *Keystone) listEndpoints(c *call) (*reply, error) {
	var out []object
	for _, svc := range s.catalog {
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
