package azure

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Registry is a login server.
type Registry struct {
	// Host is its name, such as contoso.azurecr.io. Another one is one of its regional endpoints.
	Host string
	// Login is the name of the registry if Host is that of a replica.
	Login string
	// Cloud is by default that of its domain.
	Cloud string
	// Pull are the client ids that may pull.
	Pull []string
	// OnlyOwnAudience refuses tokens for Azure Resource Manager.
	OnlyOwnAudience bool
	// Open lets everybody in.
	Open bool
}

// login is a registry's refresh token.
type login struct {
	registry *Registry
	client   string
	expires  time.Time
}

// AddRegistry adds a registry.
func (s *Sim) AddRegistry(r Registry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Login == "" {
		r.Login = r.Host
	}
	if r.Cloud == "" {
		r.Cloud = "public"
		for suffix, cloud := range map[string]string{".azurecr.cn": "china", ".azurecr.us": "usgov"} {
			if strings.HasSuffix(r.Host, suffix) {
				r.Cloud = cloud
			}
		}
	}
	s.registries[r.Host] = &r
}

const ownAudience = "https://containerregistry.azure.net"

// registryRoot is GET /v2/: without a login it is a challenge.
func (s *Sim) registryRoot(c *call) (*reply, error) {
	r := s.registries[c.host]
	if r.Open {
		return jsonReply(http.StatusOK, map[string]any{}), nil
	}
	out := c.errorReply(errorf(http.StatusUnauthorized, "UNAUTHORIZED", "authentication required, visit https://aka.ms/acr/authorization for more information."))
	out.Header = http.Header{
		"Www-Authenticate":                {fmt.Sprintf("Bearer realm=%q,service=%q", "https://"+r.Login+"/oauth2/token", r.Login)},
		"Docker-Distribution-Api-Version": {"registry/2.0"},
	}
	return out, nil
}

// exchange is POST /oauth2/exchange: a token of Entra ID for one of the registry.
func (s *Sim) exchange(c *call) (*reply, error) {
	r := s.registries[c.host]
	denied := errorf(http.StatusUnauthorized, "UNAUTHORIZED", "authentication required, visit https://aka.ms/acr/authorization for more information.")
	token := s.tokens[c.form.Get("access_token")]
	tenant := c.form.Get("tenant")
	switch grant := c.form.Get("grant_type"); {
	case grant != "access_token" && grant != "access_token_refresh_token":
		return nil, errorf(http.StatusBadRequest, "UNSUPPORTED", "grant_type is not supported")
	case c.form.Get("service") != r.Login:
		return nil, errorf(http.StatusBadRequest, "UNSUPPORTED", "service is not this registry")
	case token == nil || time.Now().After(token.expires) || token.of.Cloud != r.Cloud || tenant != "" && tenant != token.of.Identity.Tenant:
		return nil, denied
	case token.audience != ownAudience && (r.OnlyOwnAudience || !strings.HasPrefix(token.audience, "https://management.")):
		return nil, denied
	case !slices.Contains(r.Pull, token.of.ClientID):
		return nil, denied
	}
	expires := time.Now().Add(s.opts.RefreshLifetime).Truncate(time.Second)
	value := newJWT(map[string]any{"aud": r.Login, "iss": "Azure Container Registry", "grant_type": "refresh_token", "jti": newGUID(), "exp": expires.Unix(), "tenant": token.of.Identity.Tenant, "appid": token.of.ClientID})
	s.refresh[value] = &login{registry: r, client: token.of.ClientID, expires: expires}
	return jsonReply(http.StatusOK, map[string]string{"refresh_token": value}), nil
}

// registryToken is /oauth2/token: a refresh token for an access token, as containerd asks for it.
func (s *Sim) registryToken(c *call) (*reply, error) {
	value, service, scope := c.form.Get("refresh_token"), c.form.Get("service"), c.form.Get("scope")
	if c.r.Method == http.MethodGet {
		q := c.r.URL.Query()
		user, password, _ := c.r.BasicAuth()
		if user != "00000000-0000-0000-0000-000000000000" {
			password = ""
		}
		value, service, scope = password, q.Get("service"), q.Get("scope")
	}
	l := s.refresh[value]
	r := s.registries[c.host]
	if l == nil || l.registry.Login != r.Login || service != r.Login || time.Now().After(l.expires) {
		return nil, errorf(http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	}
	return jsonReply(http.StatusOK, map[string]string{"access_token": newJWT(map[string]any{"aud": r.Login, "scope": scope, "exp": time.Now().Add(time.Hour).Unix()})}), nil
}

// Login says whether user and password open a registry, nil if they do.
func (s *Sim) Login(user, password, host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, r := s.refresh[password], s.registries[host]
	switch {
	case user != "00000000-0000-0000-0000-000000000000" || l == nil:
		return errors.New("401: unknown user or password")
	case r == nil || l.registry.Login != r.Login:
		return fmt.Errorf("401: the token is for %s", l.registry.Login)
	case time.Now().After(l.expires):
		return errors.New("401: the token has expired")
	}
	return nil
}

// ClientOf returns the client id that a registry's token was made for.
func (s *Sim) ClientOf(password string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.refresh[password]; l != nil {
		return l.client
	}
	return ""
}
