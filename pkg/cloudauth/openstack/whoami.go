package openstack

import (
	"context"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Identity is who a Session is, with the secret that proves it, for services outside of the
// catalog that ask Keystone themselves, such as the registry Keppel. Either
// ApplicationCredentialID is set, or the four names are.
type Identity struct {
	ApplicationCredentialID string

	User, UserDomain       string
	Project, ProjectDomain string

	// Secret is the application credential's secret or the user's password.
	Secret cloudauth.Secret
}

// Identity returns who the Session is. Keystone is asked only for what the configuration
// does not say. A token or a trust proves nothing elsewhere, so they are an error.
func (s *Session) Identity(ctx context.Context) (Identity, error) {
	l := s.login()
	c := l.settings.cfg
	switch {
	case c.method() == byApplicationCredential && c.ApplicationCredentialID != "":
		return Identity{ApplicationCredentialID: c.ApplicationCredentialID, Secret: c.ApplicationCredentialSecret}, nil
	case c.method() == byAccessToken:
		return Identity{}, &Error{Reason: Misconfigured, text: "a login with an access token (a service account's) has no user and password that another service takes; use an application credential"}
	case c.method() == byToken, c.TrustID != "":
		return Identity{}, &Error{Reason: Misconfigured, text: "a token or a trust is no login that another service takes; use an application credential in [Global] of cloud.conf"}
	case c.method() == byPassword && c.namesItself():
		return Identity{
			User: c.Username, UserDomain: c.UserDomainName,
			Project: c.TenantName, ProjectDomain: c.TenantDomainName, Secret: c.Password,
		}, nil
	}
	l, _, _, err := s.ready(ctx)
	if err != nil {
		return Identity{}, err
	}
	c = l.settings.cfg
	l.mu.Lock()
	id := l.holder.identity
	l.mu.Unlock()
	if c.method() == byApplicationCredential {
		if id.ApplicationCredentialID == "" {
			return Identity{}, &Error{Reason: Misconfigured, text: "Keystone does not tell the id of the application credential; set application-credential-id in [Global] of cloud.conf in place of its name"}
		}
		return Identity{ApplicationCredentialID: id.ApplicationCredentialID, Secret: c.ApplicationCredentialSecret}, nil
	}
	id.Secret = c.Password
	return id, nil
}

// namesItself reports whether the configuration has every name and no id instead of one.
func (c *Config) namesItself() bool {
	return c.UserID == "" && c.UserDomainID == "" && c.TenantID == "" && c.TenantDomainID == "" &&
		c.Username != "" && c.UserDomainName != "" && c.TenantName != "" && c.TenantDomainName != ""
}

// holder is whom a token is for.
type holder struct {
	identity      Identity  // without the secret
	user, project string    // IDs, "" for none
	passwordEnds  time.Time // zero where the user's password does not end
}

// holderOf reads whom a token is for.
func holderOf(got result) (holder, error) {
	type named struct {
		ID     string                `json:"id"`
		Name   string                `json:"name"`
		Domain struct{ Name string } `json:"domain"`
	}
	var t struct {
		User struct {
			named
			PasswordExpiresAt ending `json:"password_expires_at"`
		} `json:"user"`
		Project               named `json:"project"`
		ApplicationCredential struct {
			ID string `json:"id"`
		} `json:"application_credential"`
	}
	if err := got.ExtractInto(&t); err != nil {
		return holder{}, err
	}
	return holder{
		identity: Identity{
			ApplicationCredentialID: t.ApplicationCredential.ID,
			User:                    t.User.Name, UserDomain: t.User.Domain.Name,
			Project: t.Project.Name, ProjectDomain: t.Project.Domain.Name,
		},
		user: t.User.ID, project: t.Project.ID, passwordEnds: time.Time(t.User.PasswordExpiresAt),
	}, nil
}
