package identity

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Federation is an identity provider whose tokens Keystone takes, behind a web server that verifies
// them (mod_auth_openidc), with its mapping.
type Federation struct {
	IdentityProvider, Protocol string
	// Issuer verifies the tokens, which have to be for Audience.
	Issuer   *cloudsim.Issuer
	Audience string
	// Mapping are the roles of subjects, each in projects by their names.
	Mapping map[string]map[string][]string
}

// AddFederation makes Keystone take the tokens of an identity provider.
func (s *Keystone) AddFederation(f Federation) {
	s.Lock()
	defer s.Unlock()
	s.federations = append(s.federations, f)
}

// AddProject adds a project and returns its ID.
func (s *Keystone) AddProject(name string) string {
	s.Lock()
	defer s.Unlock()
	p := &project{id: core.NewHex(), name: name}
	s.projects = append(s.projects, p)
	return p.id
}

// invalidToken is how mod_auth_openidc refuses a token, of which Keystone knows nothing.
func invalidToken(why string) *core.Error {
	return &core.Error{
		Status: http.StatusUnauthorized, ContentType: "text/html; charset=iso-8859-1",
		Header: http.Header{"Www-Authenticate": {`Bearer error="invalid_token", error_description="` + why + `"`}},
		Body:   []byte("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>401 Unauthorized</title>\n</head><body>\n<h1>Unauthorized</h1>\n</body></html>\n"),
	}
}

// federate is POST /v3/OS-FEDERATION/identity_providers/{idp}/protocols/{protocol}/auth: an access token
// for an unscoped token.
func (s *Keystone) federate(c *core.Call) (*core.Reply, error) {
	i := slices.IndexFunc(s.federations, func(f Federation) bool {
		return f.IdentityProvider == c.Param("idp") && f.Protocol == c.Param("protocol")
	})
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Could not find identity provider: %s.", c.Param("idp"))
	}
	f := s.federations[i]
	bearer, ok := strings.CutPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, invalidToken("No bearer token found in the request")
	}
	verified, err := f.Issuer.Verify(bearer)
	switch {
	case err != nil:
		return nil, invalidToken("JWT verification failed")
	case verified.Expired():
		return nil, invalidToken("JWT expired")
	case !slices.Contains(verified.Audience, f.Audience):
		return nil, invalidToken("invalid audience")
	}
	u := s.federatedUser(verified.Subject, f)
	if u == nil {
		return nil, core.Errorf(http.StatusUnauthorized, "", core.AuthenticationRequired)
	}
	now := time.Now().UTC()
	t := &token{id: "gAAAAAB" + core.RandomText(120), methods: []string{f.Protocol}, audit: []string{core.RandomText(16)}, user: u, issued: now, expires: now.Add(s.lifetime)}
	s.tokens[t.id] = t
	rep := &core.Reply{Status: http.StatusCreated, Body: core.Object{"token": s.tokenBody(t, false)}}
	return rep.Set("X-Subject-Token", t.id), nil
}

// federatedUser returns the user that the mapping makes of a subject, nil if it makes none.
func (s *Keystone) federatedUser(subject string, f Federation) *user {
	projects, ok := f.Mapping[subject]
	if !ok {
		return nil
	}
	if u := s.findUser(&userRef{nameOrID: nameOrID{ID: subject}}); u != nil {
		return u
	}
	u := &user{id: subject, name: subject, roles: map[string][]role{}}
	for name, roles := range projects {
		for _, p := range s.projects {
			for _, r := range s.roles {
				if p.name == name && slices.Contains(roles, r.name) {
					u.roles[p.id] = append(u.roles[p.id], r)
				}
			}
		}
	}
	s.users = append(s.users, u)
	return u
}
