package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// defaultProtocol is the name that Keystone's own guides give to OpenID Connect.
const defaultProtocol = "openid"

// WithAccessToken returns the configuration of the same cloud for the identity that an OpenID Connect
// access token proves (Keystone's federation, in other clients v3oidcaccesstoken), such as a service
// account's. No other login of c, of clouds.yaml or of the environment is used instead.
func (c Config) WithAccessToken(token cloudauth.Secret) Config {
	c.AccessToken = token
	c.AccessTokenFile = ""
	return c.withoutLogins()
}

// withoutLogins returns the configuration without passwords, tokens and whose they are.
func (c Config) withoutLogins() Config {
	c.UserID, c.Username, c.Password = "", "", cloudauth.Secret{}
	c.TrustID, c.TrusteeID, c.TrusteePassword = "", "", cloudauth.Secret{}
	c.Token = cloudauth.Secret{}
	c.ApplicationCredentialID, c.ApplicationCredentialName, c.ApplicationCredentialSecret = "", "", cloudauth.Secret{}
	return c
}

// setFederation checks what a login with an access token needs.
func (c *Config) setFederation(ao *gophercloud.AuthOptions) []error {
	var errs []error
	if c.IdentityProvider == "" {
		errs = append(errs, errors.New("identity-provider is not set: write the name that Keystone has for the issuer of the access token (openstack identity provider list)"))
	}
	for key, value := range map[string]string{"identity-provider": c.IdentityProvider, "protocol": c.protocol()} {
		if strings.ContainsAny(value, "/?#%") {
			errs = append(errs, fmt.Errorf("%s is %q: it has to be a name as Keystone lists it", key, value))
		}
	}
	if c.AccessTokenFile != "" && *c != c.withoutLogins() {
		errs = append(errs, errors.New("access-token-file is a login of its own: remove the user, password, token or application credential beside it"))
	}
	if c.TenantID == "" && c.TenantName == "" {
		errs = append(errs, errors.New("tenant-id or tenant-name is not set: a login with an access token has no project of its own"))
	}
	return append(errs, c.setScope(ao)...)
}

// protocol is the federation protocol's name.
func (c *Config) protocol() string {
	if c.Protocol == "" {
		return defaultProtocol
	}
	return c.Protocol
}

// token returns the access token. A file is read each time, because its tokens end within the hour.
func (c *Config) token() (cloudauth.Secret, error) {
	if !c.AccessToken.IsEmpty() {
		return c.AccessToken, nil
	}
	data, err := cloudauth.ReadFile(c.AccessTokenFile)
	if err != nil {
		return cloudauth.Secret{}, &Error{Reason: Misconfigured, text: fmt.Sprintf("access-token-file cannot be read: %v; mount a service account token there (a projected volume)", err)}
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return cloudauth.Secret{}, &Error{Reason: Misconfigured, text: fmt.Sprintf("access-token-file %s holds no token", c.AccessTokenFile)}
	}
	return cloudauth.NewSecret(token), nil
}

// exchange gives Keystone the access token for an unscoped token of its own.
func (l *login) exchange(ctx context.Context) (string, error) {
	c := l.settings.cfg
	token, err := c.token()
	if err != nil {
		return "", err
	}
	endpoint := fmt.Sprintf("%sOS-FEDERATION/identity_providers/%s/protocols/%s/auth", l.settings.auth.IdentityEndpoint, url.PathEscape(c.IdentityProvider), url.PathEscape(c.protocol()))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", l.userAgent)
	resp, err := l.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as needed
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		// Servers like to repeat what they got, and a token of a file is not among the configuration's secrets.
		header := resp.Header.Clone()
		if challenge := header.Get("Www-Authenticate"); challenge != "" {
			header.Set("Www-Authenticate", cloudauth.Redact(challenge, token))
		}
		body = []byte(cloudauth.RedactLong(string(body), maxErrorBody, token))
		return "", gophercloud.ErrUnexpectedResponseCode{Method: http.MethodPost, URL: endpoint, Actual: resp.StatusCode, Body: body, ResponseHeader: header}
	}
	unscoped := resp.Header.Get("X-Subject-Token")
	if unscoped == "" {
		return "", &Error{Reason: Unreachable, text: fmt.Sprintf("%s answers to the access token without a token of its own: is it protected by another login page? check auth-url, identity-provider and protocol", strings.TrimSuffix(l.settings.auth.IdentityEndpoint, "/"))}
	}
	return unscoped, nil
}
