package openstack

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// secrets lists the secrets of the configuration, to be kept out of errors.
func (c *Config) secrets() []cloudauth.Secret {
	return []cloudauth.Secret{c.Password, c.TrusteePassword, c.Token, c.ApplicationCredentialSecret, c.AccessToken}
}

// method is how the configuration authenticates.
type method int

const (
	byPassword method = iota
	byApplicationCredential
	byToken
	byAccessToken
)

// method returns the way of authentication that a complete configuration means; an
// application credential, as the most particular, goes before a password, a password before
// a token.
func (c *Config) method() method {
	switch {
	case !c.AccessToken.IsEmpty(), c.AccessTokenFile != "":
		return byAccessToken
	case c.ApplicationCredentialID != "" || c.ApplicationCredentialName != "" && !c.ApplicationCredentialSecret.IsEmpty():
		return byApplicationCredential
	case !c.Token.IsEmpty() && c.Password.IsEmpty() && c.TrusteePassword.IsEmpty():
		return byToken
	}
	return byPassword
}

// who names the identity in errors.
func (c *Config) who() string {
	switch c.method() {
	case byApplicationCredential:
		if c.ApplicationCredentialID != "" {
			return "application credential " + c.ApplicationCredentialID
		}
		return fmt.Sprintf("application credential %q", c.ApplicationCredentialName)
	case byToken:
		return "the configured token"
	case byAccessToken:
		return fmt.Sprintf("the access token, as one of identity provider %s (protocol %s)", c.IdentityProvider, c.protocol())
	}
	for _, id := range []string{c.TrusteeID, c.UserID} {
		if id != "" {
			return "user " + id
		}
	}
	return fmt.Sprintf("user %q", c.Username)
}

// identityURL returns the URL of the Identity v3 API. The version is not discovered: what
// Keystone says about itself is often wrong behind a proxy, and every Keystone since 2018
// has v3 and nothing else.
func (c *Config) identityURL() (string, error) {
	if c.AuthURL == "" {
		return "", errors.New("auth-url is not set: write the URL of Keystone, for example https://keystone.example.com:5000/v3")
	}
	u, err := url.Parse(c.AuthURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("auth-url is no URL: it has to look like https://keystone.example.com:5000/v3")
	}
	if u.User != nil {
		return "", errors.New("auth-url holds a user or password: write them in username and password")
	}
	u.RawQuery, u.Fragment, u.RawPath = "", "", ""
	path := strings.TrimRight(u.Path, "/")
	switch last := path[strings.LastIndex(path, "/")+1:]; last {
	case "v3":
	case "v2.0":
		path = strings.TrimSuffix(path, "v2.0") + "v3"
	default:
		path += "/v3"
	}
	u.Path = path + "/"
	return u.String(), nil
}

// authOptions turns the configuration into Keystone's terms. All mistakes come at once.
func (c *Config) authOptions() (gophercloud.AuthOptions, error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	endpoint, err := c.identityURL()
	if err != nil {
		errs = append(errs, err)
	}
	ao := gophercloud.AuthOptions{IdentityEndpoint: endpoint}
	switch c.method() {
	case byApplicationCredential:
		ao.ApplicationCredentialID = c.ApplicationCredentialID
		ao.ApplicationCredentialSecret = c.ApplicationCredentialSecret.Reveal()
		if c.ApplicationCredentialSecret.IsEmpty() {
			fail("application-credential-secret is not set: it goes with application-credential-id")
		}
		if c.ApplicationCredentialID == "" {
			ao.ApplicationCredentialName = c.ApplicationCredentialName
			errs = append(errs, c.setUser(&ao, "application-credential-name")...)
		}
	case byToken:
		ao.TokenID = c.Token.Reveal()
		errs = append(errs, c.setScope(&ao)...)
	case byAccessToken:
		errs = append(errs, c.setFederation(&ao)...)
	default:
		errs = append(errs, c.setPassword(&ao)...)
		errs = append(errs, c.setScope(&ao)...)
	}
	return ao, errors.Join(errs...)
}

func (c *Config) setPassword(ao *gophercloud.AuthOptions) []error {
	if !c.hasIdentity() {
		return []error{errors.New("no credentials: set application-credential-id and -secret, or username and password, or token, or use-clouds, or the OS_* variables")}
	}
	if c.Username == "" && c.UserID == "" && c.TrusteeID == "" {
		return []error{errors.New("application-credential-secret is not set: it goes with application-credential-name")}
	}
	errs := c.setUser(ao, "username")
	ao.Password = c.Password.Reveal()
	if c.TrustID != "" && !c.TrusteePassword.IsEmpty() {
		ao.Password = c.TrusteePassword.Reveal()
	}
	if ao.Password == "" {
		errs = append(errs, fmt.Errorf("password is not set for %s", c.who()))
	}
	return errs
}

func (c *Config) setUser(ao *gophercloud.AuthOptions, needs string) []error {
	switch {
	case c.TrustID != "" && c.TrusteeID != "":
		ao.UserID = c.TrusteeID
	case c.UserID != "":
		ao.UserID = c.UserID
	case c.Username == "":
		return []error{fmt.Errorf("user-id or username is not set: %s needs one", needs)}
	default:
		ao.Username = c.Username
		ao.DomainID, ao.DomainName = pick(c.UserDomainID, c.UserDomainName, c.DomainID, c.DomainName)
		if ao.DomainID == "" && ao.DomainName == "" {
			return []error{fmt.Errorf("user-domain-name or user-domain-id is not set: username %q alone is not unique (often user-domain-name = Default)", c.Username)}
		}
	}
	return nil
}

// setScope sets what the token is for: a trust, else a project, else a domain. None of them
// is Keystone's default: the user's default project, or the scope that a given token has.
func (c *Config) setScope(ao *gophercloud.AuthOptions) []error {
	scope := gophercloud.AuthScope{}
	switch {
	case c.TrustID != "":
		scope.TrustID = c.TrustID
	case c.TenantID != "":
		scope.ProjectID = c.TenantID
	case c.TenantName != "":
		scope.ProjectName = c.TenantName
		scope.DomainID, scope.DomainName = pick(c.TenantDomainID, c.TenantDomainName, c.DomainID, c.DomainName, c.UserDomainID, c.UserDomainName)
		if scope.DomainID == "" && scope.DomainName == "" {
			return []error{fmt.Errorf("tenant-domain-name or tenant-domain-id is not set: tenant-name %q alone is not unique (often tenant-domain-name = Default)", c.TenantName)}
		}
	case c.DomainID != "" || c.DomainName != "":
		scope.DomainID, scope.DomainName = pick(c.DomainID, c.DomainName)
	}
	ao.Scope = &scope
	return nil
}

// pick returns the first of the pairs of id and name in which one is set; the id wins.
func pick(pairs ...string) (id, name string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "" {
			return pairs[i], ""
		}
		if pairs[i+1] != "" {
			return "", pairs[i+1]
		}
	}
	return "", ""
}

// availability checks os-endpoint-type.
func (c *Config) availability() (gophercloud.Availability, error) {
	switch v := strings.ToLower(strings.TrimSuffix(c.EndpointType, "URL")); v {
	case "":
		return gophercloud.AvailabilityPublic, nil
	case "public", "internal", "admin":
		return gophercloud.Availability(v), nil
	}
	return "", fmt.Errorf("os-endpoint-type is %q: it has to be public, internal or admin", c.EndpointType)
}
