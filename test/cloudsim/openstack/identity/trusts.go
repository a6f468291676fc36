package identity

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
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
func (s *Keystone) AddTrust() Trust {
	s.Lock()
	defer s.Unlock()
	trustor, trustee := s.users[0], s.users[1]
	t := &trust{id: core.NewHex(), projectID: trustor.defaultProject, trustor: trustor, trustee: trustee, roles: trustor.roles[trustor.defaultProject]}
	s.trusts = append(s.trusts, t)
	return Trust{ID: t.id, TrusteeID: trustee.id, TrusteeName: trustee.name, TrusteePassword: trustee.password}
}

// DeleteTrust removes a trust and with it its tokens; it reports whether it was there.
func (s *Keystone) DeleteTrust(id string) bool {
	s.Lock()
	defer s.Unlock()
	n := len(s.trusts)
	s.trusts = slices.DeleteFunc(s.trusts, func(t *trust) bool { return t.id == id })
	return len(s.trusts) < n
}

// findTrust returns the trust with the id, nil when there is none; lock held.
func (s *Keystone) findTrust(id string) *trust {
	i := slices.IndexFunc(s.trusts, func(t *trust) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.trusts[i]
}

// scopeToTrust makes the token one of the trust's.
func (s *Keystone) scopeToTrust(c *core.Call, t *token, id string) error {
	x := s.findTrust(id)
	if x == nil {
		return core.Unauthorized(c)
	}
	if x.trustee != t.user {
		return core.Errorf(http.StatusForbidden, "", "You are not authorized to perform the requested action.")
	}
	t.user, t.projectID, t.roles, t.trust = x.trustor, x.projectID, x.roles, x.id
	return nil
}

func (s *Keystone) trustBody(t *trust) core.Object {
	roles := []core.Object{}
	for _, r := range t.roles {
		body := s.roleBody(r)
		body["links"] = s.identityLink("/roles/" + r.id)
		roles = append(roles, body)
	}
	return core.Object{
		"roles": roles, "id": t.id, "trustor_user_id": t.trustor.id, "trustee_user_id": t.trustee.id, "project_id": t.projectID,
		"impersonation": true, "expires_at": nil, "remaining_uses": nil, "deleted_at": nil, "redelegated_trust_id": nil, "redelegation_count": 0,
		"roles_links": core.Object{"self": s.AuthURL() + "/" + t.id + "/roles", "next": nil, "previous": nil}, "links": s.identityLink("/OS-TRUST/trusts/" + t.id),
	}
}

func (s *Keystone) createTrust(c *core.Call) (*core.Reply, error) {
	var req struct {
		Trust struct {
			Trustor string    `json:"trustor_user_id"`
			Trustee string    `json:"trustee_user_id"`
			Project string    `json:"project_id"`
			Roles   []roleRef `json:"roles"`
		} `json:"trust"`
	}
	if json.Unmarshal(c.Body, &req) != nil {
		return nil, malformedRequest("Expecting to find valid JSON in request body.")
	}
	in := req.Trust
	trustee := s.findUser(&userRef{nameOrID: nameOrID{ID: in.Trustee}})
	if trustee == nil {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find user: %s.", in.Trustee)
	}
	if in.Trustor != tokenOf(c).user.id || in.Project != c.Project() || tokenOf(c).trust != "" {
		return nil, forbiddenAction("identity:create_trust")
	}
	t := &trust{id: core.NewHex(), projectID: in.Project, trustor: tokenOf(c).user, trustee: trustee}
	var err error
	if t.roles, err = pickRoles(tokenOf(c).roles, in.Roles); err != nil {
		return nil, err
	}
	s.trusts = append(s.trusts, t)
	return core.Answer(http.StatusCreated, core.Object{"trust": s.trustBody(t)})
}

func (s *Keystone) listTrusts(c *core.Call) (*core.Reply, error) {
	var out []core.Object
	for _, t := range s.trusts {
		if c.Admin() || t.trustor == tokenOf(c).user || t.trustee == tokenOf(c).user {
			out = append(out, s.trustBody(t))
		}
	}
	return identityList(c, "trusts", out)
}

// pathTrust is the trust of the path, when the caller may look at it.
func (s *Keystone) pathTrust(c *core.Call) (*trust, error) {
	t := s.findTrust(c.Param("id"))
	if t == nil || t.trustor != tokenOf(c).user && t.trustee != tokenOf(c).user && !c.Admin() {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find trust: %s.", c.Param("id"))
	}
	return t, nil
}

func (s *Keystone) showTrust(c *core.Call) (*core.Reply, error) {
	t, err := s.pathTrust(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"trust": s.trustBody(t)})
}

func (s *Keystone) deleteTrust(c *core.Call) (*core.Reply, error) {
	t, err := s.pathTrust(c)
	if err != nil {
		return nil, err
	}
	if t.trustor != tokenOf(c).user && !c.Admin() {
		return nil, forbiddenAction("identity:delete_trust")
	}
	s.trusts = slices.DeleteFunc(s.trusts, func(x *trust) bool { return x == t })
	return core.NoContent()
}
