package identity

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// nameOrID names a project, with the domain its name belongs to.
type nameOrID struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"domain"`
}

type userRef struct {
	nameOrID
	Password string `json:"password"`
}

type authRequest struct {
	Auth struct {
		Identity *struct {
			Methods  []string `json:"methods"`
			Password *struct {
				User *userRef `json:"user"`
			} `json:"password"`
			Token *struct {
				ID string `json:"id"`
			} `json:"token"`
			ApplicationCredential *struct {
				ID     string   `json:"id"`
				Name   string   `json:"name"`
				Secret string   `json:"secret"`
				User   *userRef `json:"user"`
			} `json:"application_credential"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

// inDomain reports whether the name's domain is the one there is.
func (n *nameOrID) inDomain() bool {
	return n.Domain != nil && (n.Domain.ID == domainID || n.Domain.ID == "" && n.Domain.Name == "Default")
}

// issueToken is POST /v3/auth/tokens.
func (s *Keystone) issueToken(c *core.Call) (*core.Reply, error) {
	var req authRequest
	if json.Unmarshal(c.Body, &req) != nil {
		return nil, malformedRequest("Expecting to find valid JSON in request body.")
	}
	id := req.Auth.Identity
	if id == nil {
		return nil, core.Errorf(http.StatusBadRequest, "", "'identity' is a required property")
	}
	t := &token{issued: time.Now().UTC(), audit: []string{core.RandomText(16)}}
	t.expires = t.issued.Add(s.lifetime)
	for _, method := range id.Methods {
		var err error
		switch {
		case method == "password" && id.Password != nil:
			err = s.byPassword(t, id.Password.User)
		case method == "token" && id.Token != nil:
			err = s.byToken(t, id.Token.ID)
		case method == "application_credential" && id.ApplicationCredential != nil:
			a := id.ApplicationCredential
			err = s.byAppCredential(t, a.ID, a.Name, a.Secret, a.User)
		default:
			err = malformedRequest("Expecting to find " + method + " in identity.")
		}
		if err != nil {
			return nil, err
		}
	}
	if t.user == nil {
		return nil, core.Unauthorized(c)
	}
	if err := s.scope(c, t, req.Auth.Scope); err != nil {
		return nil, err
	}
	t.id = "gAAAAAB" + core.RandomText(120)
	s.tokens[t.id] = t
	rep := &core.Reply{Status: http.StatusCreated, Body: core.Object{"token": s.tokenBody(t, true)}}
	return rep.Set("X-Subject-Token", t.id), nil
}

func (s *Keystone) byPassword(t *token, ref *userRef) error {
	if ref == nil {
		return malformedRequest("Expecting to find user in password.")
	}
	if ref.ID == "" && ref.Domain == nil {
		return malformedRequest("Expecting to find domain in user.")
	}
	u := s.findUser(ref)
	if u == nil || u.password != ref.Password || u.passwordExpires != nil && u.passwordExpires.Before(time.Now()) {
		return core.Errorf(http.StatusUnauthorized, "", core.AuthenticationRequired)
	}
	t.user, t.methods = u, append(t.methods, "password")
	return nil
}

func (s *Keystone) findUser(ref *userRef) *user {
	i := slices.IndexFunc(s.users, func(u *user) bool {
		if ref.ID != "" {
			return u.id == ref.ID
		}
		return ref.inDomain() && u.name == ref.Name
	})
	if i < 0 {
		return nil
	}
	return s.users[i]
}

// byToken makes a token of a token: it keeps the first one's end of life.
func (s *Keystone) byToken(t *token, id string) error {
	old := s.validToken(id)
	if old == nil {
		return core.Errorf(http.StatusNotFound, "", "Could not recognize Fernet token")
	}
	if old.appCred != "" || old.trust != "" {
		return forbiddenAction("Using a delegated token to create another token is not allowed.")
	}
	t.user, t.expires = old.user, old.expires
	t.methods = append(slices.DeleteFunc(slices.Clone(old.methods), func(m string) bool { return m == "token" }), "token")
	t.audit = append(t.audit, old.audit[len(old.audit)-1])
	t.projectID = old.projectID
	return nil
}

func (s *Keystone) byAppCredential(t *token, id, name, secret string, ref *userRef) error {
	refused := core.Errorf(http.StatusUnauthorized, "", core.AuthenticationRequired)
	i := slices.IndexFunc(s.appCreds, func(a *appCredential) bool {
		if id != "" {
			return a.id == id
		}
		return ref != nil && a.name == name && a.user == s.findUser(ref)
	})
	if i < 0 {
		if id != "" { // Keystone answers an id that does not exist with 404, not 401
			return core.Errorf(http.StatusNotFound, "", "Could not find Application Credential: %s.", id)
		}
		return refused
	}
	a := s.appCreds[i]
	if a.secret != secret || s.liveAppCredential(a.id) == nil {
		return refused
	}
	t.user, t.projectID, t.roles, t.appCred = a.user, a.projectID, a.roles, a.id
	t.methods = append(t.methods, "application_credential")
	return nil
}

// scope sets the token's project and roles from the request's scope, or the user's default.
func (s *Keystone) scope(c *core.Call, t *token, raw json.RawMessage) error {
	if t.appCred != "" {
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			return core.Errorf(http.StatusUnauthorized, "", "Error authenticating with application credential: Application credentials cannot request a scope.")
		}
		t.admin = hasRole(t.roles, "admin")
		return nil
	}
	var unscoped string
	if json.Unmarshal(raw, &unscoped) == nil && unscoped == "unscoped" {
		t.projectID = ""
		return nil
	}
	var want struct {
		Project *nameOrID       `json:"project"`
		Domain  json.RawMessage `json:"domain"`
		System  json.RawMessage `json:"system"`
		Trust   *nameOrID       `json:"OS-TRUST:trust"`
	}
	if len(raw) > 0 && json.Unmarshal(raw, &want) != nil {
		return malformedRequest("Expecting to find a valid scope.")
	}
	if want.Domain != nil || want.System != nil {
		return core.Unauthorized(c) // nobody here has a role on the domain or the system
	}
	if want.Trust != nil {
		return s.scopeToTrust(c, t, want.Trust.ID)
	}
	if want.Project == nil {
		if t.projectID == "" {
			t.projectID = t.user.defaultProject
		}
	} else if p := s.findProject(want.Project); p != nil {
		t.projectID = p.id
	} else {
		return core.Unauthorized(c)
	}
	if t.projectID == "" {
		return nil
	}
	if t.roles = t.user.roles[t.projectID]; len(t.roles) == 0 {
		return core.Unauthorized(c)
	}
	t.admin = hasRole(t.roles, "admin")
	return nil
}

func hasRole(roles []role, name string) bool {
	return slices.ContainsFunc(roles, func(r role) bool { return r.name == name })
}

func (s *Keystone) findProject(ref *nameOrID) *project {
	i := slices.IndexFunc(s.projects, func(p *project) bool {
		if ref.ID != "" {
			return p.id == ref.ID
		}
		return ref.inDomain() && p.name == ref.Name
	})
	if i < 0 {
		return nil
	}
	return s.projects[i]
}

// keystoneTime is how tokens write times.
const keystoneTime = "2006-01-02T15:04:05.000000Z"

func (s *Keystone) tokenBody(t *token, catalog bool) core.Object {
	domain := core.Object{"id": domainID, "name": "Default"}
	out := core.Object{
		"methods":    t.methods,
		"user":       core.Object{"domain": domain, "id": t.user.id, "name": t.user.name, "password_expires_at": written(t.user.passwordExpires)},
		"audit_ids":  t.audit,
		"expires_at": t.expires.Format(keystoneTime),
		"issued_at":  t.issued.Format(keystoneTime),
	}
	if t.projectID == "" {
		return out
	}
	p := s.findProject(&nameOrID{ID: t.projectID})
	out["project"] = core.Object{"domain": domain, "id": p.id, "name": p.name}
	out["is_domain"] = false
	roles := []core.Object{}
	for _, r := range t.roles {
		roles = append(roles, core.Object{"id": r.id, "name": r.name})
	}
	out["roles"] = roles
	if a := s.liveAppCredential(t.appCred); a != nil {
		out["application_credential"] = core.Object{"id": a.id, "name": a.name, "restricted": a.unrestricted != true}
	}
	if x := s.findTrust(t.trust); x != nil {
		out["OS-TRUST:trust"] = core.Object{"id": x.id, "trustor_user": core.Object{"id": x.trustor.id}, "trustee_user": core.Object{"id": x.trustee.id}, "impersonation": true}
		delete(out, "is_domain")
	}
	if catalog {
		out["catalog"] = s.catalogBody(t.projectID)
	}
	return out
}

func (s *Keystone) catalogBody(projectID string) []core.Object {
	out := []core.Object{}
	for _, svc := range s.catalog {
		var endpoints []core.Object
		for _, e := range s.endpointsOf(svc) {
			for i, iface := range interfaces {
				endpoints = append(endpoints, core.Object{"id": e.svc.endpoints[i], "interface": iface, "region_id": e.region, "url": e.svc.url(projectID), "region": e.region})
			}
		}
		out = append(out, core.Object{"endpoints": endpoints, "id": svc.id, "type": svc.typ, "name": svc.name})
	}
	return out
}

// regionalService is a service in one region.
type regionalService struct {
	region string
	svc    catalogService
}

// endpointsOf lists where a service is, in every region.
func (s *Keystone) endpointsOf(svc catalogService) []regionalService {
	out := []regionalService{{s.region, svc}}
	for _, r := range s.further {
		for _, other := range r.catalog {
			if other.typ == svc.typ {
				out = append(out, regionalService{r.name, other})
			}
		}
	}
	return out
}

// subject is the token that X-Subject-Token names, which the caller may look at when it is
// the caller's user's or the caller is an admin.
func (s *Keystone) subject(c *core.Call, action string) (*token, error) {
	id := c.Request.Header.Get("X-Subject-Token")
	if id == "" {
		return nil, forbiddenAction(action)
	}
	t := s.validToken(id)
	if t == nil {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not recognize Fernet token")
	}
	if t.user != tokenOf(c).user && !c.Admin() {
		return nil, forbiddenAction(action)
	}
	return t, nil
}

func (s *Keystone) validateToken(c *core.Call) (*core.Reply, error) {
	t, err := s.subject(c, "identity:validate_token")
	if err != nil {
		return nil, err
	}
	rep := &core.Reply{Status: http.StatusOK, Body: core.Object{"token": s.tokenBody(t, !c.Query.Has("nocatalog"))}}
	return rep.Set("X-Subject-Token", t.id), nil
}

func (s *Keystone) revokeToken(c *core.Call) (*core.Reply, error) {
	t, err := s.subject(c, "identity:revoke_token")
	if err != nil {
		return nil, err
	}
	delete(s.tokens, t.id)
	return core.NoContent()
}

// ExpireTokens makes every token that was issued so far invalid.
func (s *Keystone) ExpireTokens() {
	s.Lock()
	defer s.Unlock()
	clear(s.tokens)
}

// ExpirePassword sets when the password of a user expires, zero for never. It reports whether there is such a user.
func (s *Keystone) ExpirePassword(userName string, at time.Time) bool {
	s.Lock()
	defer s.Unlock()
	i := slices.IndexFunc(s.users, func(u *user) bool { return u.name == userName })
	if i < 0 {
		return false
	}
	s.users[i].passwordExpires = nil
	if !at.IsZero() {
		s.users[i].passwordExpires = &at
	}
	return true
}

// SetPassword changes the password of a user; its tokens end, as Keystone has it. It reports
// whether there is such a user.
func (s *Keystone) SetPassword(userName, password string) bool {
	s.Lock()
	defer s.Unlock()
	for _, u := range s.users {
		if u.name != userName {
			continue
		}
		u.password = password
		for id, t := range s.tokens {
			if t.user == u && t.appCred == "" {
				delete(s.tokens, id)
			}
		}
		return true
	}
	return false
}
