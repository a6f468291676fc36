package identity

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// AppCredential is an application credential, made for the user k8s in its project.
type AppCredential struct{ ID, Name, Secret string }

// AddApplicationCredential makes an application credential with a random secret, and with the roles, or where there are none with all of the user's.
func (s *Keystone) AddApplicationCredential(name string, roles ...string) AppCredential {
	s.Lock()
	defer s.Unlock()
	u := s.users[0]
	a := &appCredential{id: core.NewHex(), name: name, secret: core.RandomText(64), user: u, projectID: u.defaultProject, roles: slices.Clone(u.roles[u.defaultProject])}
	if len(roles) > 0 {
		a.roles = slices.DeleteFunc(slices.Clone(s.roles), func(r role) bool { return !slices.Contains(roles, r.name) })
	}
	s.appCreds = append(s.appCreds, a)
	return AppCredential{ID: a.id, Name: name, Secret: a.secret}
}

// ExpireApplicationCredential sets when one expires, zero for never; it reports whether it is there.
func (s *Keystone) ExpireApplicationCredential(id string, at time.Time) bool {
	s.Lock()
	defer s.Unlock()
	i := slices.IndexFunc(s.appCreds, func(a *appCredential) bool { return a.id == id })
	if i >= 0 {
		s.appCreds[i].expires = nil
		if !at.IsZero() {
			s.appCreds[i].expires = &at
		}
	}
	return i >= 0
}

// DeleteApplicationCredential removes one, and with it all tokens made with it; it reports
// whether it was there.
func (s *Keystone) DeleteApplicationCredential(id string) bool {
	s.Lock()
	defer s.Unlock()
	return s.removeAppCredential(id)
}

func (s *Keystone) removeAppCredential(id string) bool {
	n := len(s.appCreds)
	s.appCreds = slices.DeleteFunc(s.appCreds, func(a *appCredential) bool { return a.id == id })
	return len(s.appCreds) < n
}

// Snapshot adds what exists; the lock is held.
func (s *Keystone) Snapshot(out *core.Snapshot) {
	for _, a := range s.appCreds {
		out.AppCredentials = append(out.AppCredentials, core.Item{ID: a.id, Name: a.name})
	}
}

func (s *Keystone) appCredentialBody(a *appCredential) core.Object {
	var roles []core.Object
	for _, r := range a.roles {
		roles = append(roles, s.roleBody(r))
	}
	return core.Object{
		"id": a.id, "name": a.name, "description": a.description, "user_id": a.user.id, "project_id": a.projectID, "system": nil,
		"expires_at": written(a.expires), "unrestricted": a.unrestricted, "roles": roles, "links": s.identityLink("/application_credentials/" + a.id),
	}
}

// written is how Keystone writes when an application credential or a password expires.
func written(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000")
}

func (s *Keystone) listAppCredentials(c *core.Call) (*core.Reply, error) {
	u, err := s.pathUser(c, "identity:list_application_credentials")
	if err != nil {
		return nil, err
	}
	var out []core.Object
	for _, a := range s.appCreds {
		if name := c.Query.Get("name"); a.user == u && (name == "" || name == a.name) {
			out = append(out, s.appCredentialBody(a))
		}
	}
	return identityList(c, "application_credentials", out)
}

func (s *Keystone) pathAppCredential(c *core.Call, action string) (*appCredential, error) {
	u, err := s.pathUser(c, action)
	if err != nil {
		return nil, err
	}
	id := c.Param("id")
	i := slices.IndexFunc(s.appCreds, func(a *appCredential) bool { return a.id == id && a.user == u })
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find Application Credential: %s.", id)
	}
	return s.appCreds[i], nil
}

func (s *Keystone) showAppCredential(c *core.Call) (*core.Reply, error) {
	a, err := s.pathAppCredential(c, "identity:get_application_credential")
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"application_credential": s.appCredentialBody(a)})
}

// managesAppCredentials refuses callers that themselves use a restricted application credential.
func (s *Keystone) managesAppCredentials(c *core.Call) error {
	if a := s.liveAppCredential(tokenOf(c).appCred); a != nil && a.unrestricted != true {
		return forbiddenAction("Using method 'application_credential' is not allowed for managing additional application credentials.")
	}
	return nil
}

func (s *Keystone) deleteAppCredential(c *core.Call) (*core.Reply, error) {
	a, err := s.pathAppCredential(c, "identity:delete_application_credential")
	if err != nil {
		return nil, err
	}
	if err := s.managesAppCredentials(c); err != nil {
		return nil, err
	}
	s.removeAppCredential(a.id)
	return core.NoContent()
}

func (s *Keystone) createAppCredential(c *core.Call) (*core.Reply, error) {
	u, err := s.pathUser(c, "identity:create_application_credential")
	if err != nil {
		return nil, err
	}
	if u != tokenOf(c).user {
		return nil, forbiddenAction("identity:create_application_credential")
	}
	if err := s.managesAppCredentials(c); err != nil {
		return nil, err
	}
	var req struct {
		AppCredential struct {
			Name         string    `json:"name"`
			Secret       string    `json:"secret"`
			Description  *string   `json:"description"`
			ExpiresAt    string    `json:"expires_at"`
			Unrestricted any       `json:"unrestricted"`
			Roles        []roleRef `json:"roles"`
		} `json:"application_credential"`
	}
	if json.Unmarshal(c.Body, &req) != nil {
		return nil, malformedRequest("Expecting to find valid JSON in request body.")
	}
	in := req.AppCredential
	if in.Name == "" {
		return nil, core.Errorf(http.StatusBadRequest, "", "'name' is a required property")
	}
	if slices.ContainsFunc(s.appCreds, func(a *appCredential) bool { return a.user == u && a.name == in.Name }) {
		return nil, core.Errorf(http.StatusConflict, "", "Conflict occurred attempting to store application_credential - Duplicate entry found with name %s.", in.Name)
	}
	a := &appCredential{id: core.NewHex(), name: in.Name, secret: in.Secret, description: in.Description, user: u, projectID: c.Project(), unrestricted: in.Unrestricted}
	if a.roles, err = pickRoles(tokenOf(c).roles, in.Roles); err != nil {
		return nil, err
	}
	if in.ExpiresAt != "" {
		at, err := parseExpiry(in.ExpiresAt)
		if err != nil {
			return nil, err
		}
		a.expires = &at
	}
	if a.secret == "" {
		a.secret = core.RandomText(64)
	}
	s.appCreds = append(s.appCreds, a)
	body := s.appCredentialBody(a)
	body["secret"] = a.secret
	return core.Answer(http.StatusCreated, core.Object{"application_credential": body})
}

// roleRef names a role by id or name.
type roleRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// pickRoles returns the roles asked for among those that the caller has, all when none is asked for.
func pickRoles(have []role, want []roleRef) ([]role, error) {
	if len(want) == 0 {
		return have, nil
	}
	var out []role
	for _, w := range want {
		i := slices.IndexFunc(have, func(r role) bool { return r.id == w.ID || w.ID == "" && r.name == w.Name })
		if i < 0 {
			return nil, malformedRequest("Invalid application credential: Could not find role assignment with role: " + w.ID + w.Name + ".")
		}
		out = append(out, have[i])
	}
	return out, nil
}

func parseExpiry(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04:05.999999"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if at.Before(time.Now()) {
			return time.Time{}, malformedRequest("The 'expires_at' must not be before now.")
		}
		return at, nil
	}
	return time.Time{}, malformedRequest("Invalid input for field 'expires_at'.")
}
