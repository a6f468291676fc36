package openstack

import (
	"encoding/json"
	"net/http"
	"slices"
)

// trust lets trustee act as trustor in a project with some of the trustor's roles.
type trust struct {
	id, projectID    string
	trustor, trustee *user
	roles            []role
}

// Trust is a trust of the user k8s in its project: a user who may ask for tokens scoped to it.
type Trust struct{ ID, TrusteeID, TrusteeName, TrusteePassword string }

// AddTrust makes a trust whose trustee is the administrator.
func (s *Sim) AddTrust() Trust {
	s.mu.Lock()
	defer s.mu.Unlock()
	trustor, trustee := s.identity.users[0], s.identity.users[1]
	t := &trust{id: newHex(), projectID: trustor.defaultProject, trustor: trustor, trustee: trustee, roles: trustor.roles[trustor.defaultProject]}
	s.identity.trusts = append(s.identity.trusts, t)
	return Trust{ID: t.id, TrusteeID: trustee.id, TrusteeName: trustee.name, TrusteePassword: trustee.password}
}

// DeleteTrust removes a trust and with it its tokens; it reports whether it was there.
func (s *Sim) DeleteTrust(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.identity.trusts)
	s.identity.trusts = slices.DeleteFunc(s.identity.trusts, func(t *trust) bool { return t.id == id })
	return len(s.identity.trusts) < n
}

// findTrust returns the trust with the id, nil when there is none; mu held.
func (s *Sim) findTrust(id string) *trust {
	i := slices.IndexFunc(s.identity.trusts, func(t *trust) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.identity.trusts[i]
}

// scopeToTrust makes the token one of the trust's.
func (s *Sim) scopeToTrust(c *call, t *token, id string) error {
	x := s.findTrust(id)
	if x == nil {
		return unauthorized(c)
	}
	if x.trustee != t.user {
		return errorf(http.StatusForbidden, "", "You are not authorized to perform the requested action.")
	}
	t.user, t.projectID, t.roles, t.trust = x.trustor, x.projectID, x.roles, x.id
	return nil
}

func (s *Sim) trustBody(t *trust) object {
	roles := []object{}
	for _, r := range t.roles {
		body := s.roleBody(r)
		body["links"] = s.identityLink("/roles/" + r.id)
		roles = append(roles, body)
	}
	return object{
		"roles": roles, "id": t.id, "trustor_user_id": t.trustor.id, "trustee_user_id": t.trustee.id, "project_id": t.projectID,
		"impersonation": true, "expires_at": nil, "remaining_uses": nil, "deleted_at": nil, "redelegated_trust_id": nil, "redelegation_count": 0,
		"roles_links": object{"self": s.AuthURL() + "/" + t.id + "/roles", "next": nil, "previous": nil}, "links": s.identityLink("/OS-TRUST/trusts/" + t.id),
	}
}

func (s *Sim) createTrust(c *call) (*reply, error) {
	var req struct {
		Trust struct {
			Trustor string    `json:"trustor_user_id"`
			Trustee string    `json:"trustee_user_id"`
			Project string    `json:"project_id"`
			Roles   []roleRef `json:"roles"`
		} `json:"trust"`
	}
	if json.Unmarshal(c.body, &req) != nil {
		return nil, malformedRequest("Expecting to find valid JSON in request body.")
	}
	in := req.Trust
	trustee := s.findUser(&userRef{nameOrID: nameOrID{ID: in.Trustee}})
	if trustee == nil {
		return nil, errorf(http.StatusNotFound, "", "Could not find user: %s.", in.Trustee)
	}
	if in.Trustor != c.tok.user.id || in.Project != c.project() || c.tok.trust != "" {
		return nil, forbiddenAction("identity:create_trust")
	}
	t := &trust{id: newHex(), projectID: in.Project, trustor: c.tok.user, trustee: trustee}
	var err error
	if t.roles, err = pickRoles(c.tok.roles, in.Roles); err != nil {
		return nil, err
	}
	s.identity.trusts = append(s.identity.trusts, t)
	return answer(http.StatusCreated, object{"trust": s.trustBody(t)})
}

func (s *Sim) listTrusts(c *call) (*reply, error) {
	var out []object
	for _, t := range s.identity.trusts {
		if c.tok.admin || t.trustor == c.tok.user || t.trustee == c.tok.user {
			out = append(out, s.trustBody(t))
		}
	}
	return identityList(c, "trusts", out)
}

// pathTrust is the trust of the path, when the caller may look at it.
func (s *Sim) pathTrust(c *call) (*trust, error) {
	t := s.findTrust(c.param("id"))
	if t == nil || t.trustor != c.tok.user && t.trustee != c.tok.user && !c.tok.admin {
		return nil, errorf(http.StatusNotFound, "", "Could not find trust: %s.", c.param("id"))
	}
	return t, nil
}

func (s *Sim) showTrust(c *call) (*reply, error) {
	t, err := s.pathTrust(c)
	if err != nil {
		return nil, err
	}
	return ok(object{"trust": s.trustBody(t)})
}

func (s *Sim) deleteTrust(c *call) (*reply, error) {
	t, err := s.pathTrust(c)
	if err != nil {
		return nil, err
	}
	if t.trustor != c.tok.user && !c.tok.admin {
		return nil, forbiddenAction("identity:delete_trust")
	}
	s.identity.trusts = slices.DeleteFunc(s.identity.trusts, func(x *trust) bool { return x == t })
	return noContent()
}
