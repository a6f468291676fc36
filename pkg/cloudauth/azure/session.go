package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Token is an access token.
type Token struct {
	Value   cloudauth.Secret
	Expires time.Time
}

// Session is a login to Azure. All of its methods may be called concurrently.
type Session struct {
	cfg       Config
	client    *Client
	cloud     Cloud
	authority string // host of Entra ID
	metadata  *url.URL
	kind      kind
	settings  settings

	options Options

	now func() time.Time

	mu     sync.Mutex
	tokens map[Wanted]*cloudauth.Cache[Token]
}

// Wanted is what a token is for.
type Wanted struct {
	// Audience is whom it is for, such as https://containerregistry.azure.net.
	Audience string
	// Tenant is the directory that it is of, if not the identity's own.
	Tenant string
	// Claims is what it has to say, as a service asks for it that refused another one.
	Claims string
}

// New checks the configuration, decides on the identity and returns a Session for it. It reads the
// environment and azure.json, but does not use the network. Its errors are *cloudauth.Error.
func New(cfg Config, o Options) (*Session, error) {
	s := &Session{cfg: cfg, client: NewClient(o), options: o, now: o.now, tokens: map[Wanted]*cloudauth.Cache[Token]{}}
	if s.now == nil {
		s.now = time.Now
	}
	if err := cfg.Check(); err != nil {
		return nil, misconfigured(err)
	}
	if err := s.decide(); err != nil {
		return nil, misconfigured(err)
	}
	return s, nil
}

// decide finds the identity and the cloud.
func (s *Session) decide() error {
	named, err := s.decideIdentity()
	if err != nil {
		return err
	}
	if s.managed() {
		if s.metadata, err = metadataURL(); err != nil {
			return err
		}
	}
	return s.decideCloud(named)
}

// decideIdentity sets kind and settings; it returns the cloud that azure.json names, if one is read.
func (s *Session) decideIdentity() (cloud string, err error) {
	env := fromEnvironment()
	own := s.cfg.settings()
	if !s.cfg.FederatedToken.IsEmpty() {
		s.kind, s.settings = withToken, settings{client: own.client, tenant: cmp.Or(own.tenant, env.tenant)}
		return "", s.checkFederated()
	}
	if s.kind, err = own.choose("the configuration", configKeys); err != nil {
		return "", err
	}
	s.settings = own
	switch {
	case s.kind == inCloudConfig:
		s.settings, s.kind, cloud, err = readCloudConfig(s.cfg.CloudConfig)
		return cloud, err
	case s.kind != unset:
		return "", nil
	}
	if err := env.checkEnvironment(); err != nil {
		return "", err
	}
	env.tenant = cmp.Or(own.tenant, env.tenant)
	if s.kind, err = env.choose("the environment", envKeys); err != nil {
		return "", err
	}
	s.settings = env
	if s.kind == unset {
		s.kind = systemAssigned
	}
	return "", nil
}

// checkFederated checks who is logged in with a token that the caller gives.
func (s *Session) checkFederated() error {
	var errs []error
	for _, f := range []struct {
		what, value string
		check       func(string) error
	}{{"client id", s.settings.client, CheckID}, {"tenant", s.settings.tenant, CheckTenant}} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("the token is for no application: its %s is missing", f.what))
		} else if err := f.check(f.value); err != nil {
			errs = append(errs, fmt.Errorf("%s of the token's application: %w", f.what, err))
		}
	}
	return errors.Join(errs...)
}

// decideCloud sets cloud and authority. named is the cloud that azure.json names.
func (s *Session) decideCloud(named string) error {
	host := s.cfg.AuthorityHost
	name := cmp.Or(s.cfg.Cloud, named)
	if host == "" && name == "" {
		host = os.Getenv("AZURE_AUTHORITY_HOST")
		if _, _, err := parseAuthority(host); host != "" && err != nil {
			return fmt.Errorf("AZURE_AUTHORITY_HOST: %w", err)
		}
	}
	var err error
	switch {
	case host != "": // in the configuration it belongs to the cloud there
		s.authority, s.cloud, err = parseAuthority(host)
		return err
	case name != "":
		s.cloud, err = CloudNamed(name)
		s.authority = s.cloud.AuthorityHost
		return err
	}
	s.cloud = s.cfg.DefaultCloud
	if s.cloud == (Cloud{}) {
		s.cloud = Public
	}
	s.authority = s.cloud.AuthorityHost
	return nil
}

// Cloud is the cloud that the identity belongs to; the zero Cloud if that is not known.
func (s *Session) Cloud() Cloud { return s.cloud }

// Client sends requests by the same rules as the Session's own.
func (s *Session) Client() *Client { return s.client }

// TenantID is the identity's directory, "" for a managed identity.
func (s *Session) TenantID() string {
	if s.managed() {
		return ""
	}
	return s.settings.tenant
}

// managed reports whether it is a managed identity, whose tokens come from the metadata service.
func (s *Session) managed() bool { return s.kind == systemAssigned || s.kind == userAssigned }

// Who says whose credentials are in use, for errors.
func (s *Session) Who() string {
	application := "application " + s.settings.client + " in tenant " + s.settings.tenant
	switch s.kind {
	case withSecret:
		return application + " (client secret)"
	case withCertificate:
		return application + " (client certificate)"
	case withToken:
		return application + " (federated token)"
	case userAssigned:
		return "the managed identity " + cmp.Or(s.settings.client, s.settings.object, s.settings.resource)
	}
	return "the machine's system-assigned managed identity"
}

// Token returns a token for an audience, as TokenFor does.
func (s *Session) Token(ctx context.Context, audience string) (Token, error) {
	return s.TokenFor(ctx, Wanted{Audience: audience})
}

// TokenFor returns a token, from memory while that is good. Its errors are *cloudauth.Error.
func (s *Session) TokenFor(ctx context.Context, w Wanted) (Token, error) {
	return s.told(s.cache(w).Get(ctx))
}

// RenewFor is TokenFor without the token at hand, which a service has refused.
func (s *Session) RenewFor(ctx context.Context, w Wanted) (Token, error) {
	return s.told(s.cache(w).Renew(ctx))
}

// told makes a *cloudauth.Error of what is none.
func (s *Session) told(t Token, err error) (Token, error) {
	var own *cloudauth.Error
	if err != nil && !errors.As(err, &own) {
		return t, explain(Request{Where: "waiting for a token of " + s.Who()}, err)
	}
	return t, err
}

// mostTokens bounds what is kept: claims are words of others.
const mostTokens = 100

func (s *Session) cache(w Wanted) *cloudauth.Cache[Token] {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.tokens[w]
	if c == nil {
		if len(s.tokens) >= mostTokens {
			clear(s.tokens)
		}
		c = cloudauth.NewCache(cloudauth.CacheOptions[Token]{
			Fetch: func(ctx context.Context) (Token, time.Time, error) {
				t, err := s.fetch(ctx, w)
				return t, t.Expires, err
			},
			Timeout: 3 * s.client.timeout, Now: s.now, Observe: s.options.Observe,
		})
		s.tokens[w] = c
	}
	return c
}

// fetch gets a new token. What is in files is read now.
func (s *Session) fetch(ctx context.Context, w Wanted) (Token, error) {
	if s.managed() {
		return s.fromMetadata(ctx, w.Audience)
	}
	current := s.settings
	if s.cfg.CloudConfig != "" && s.cfg.FederatedToken.IsEmpty() {
		again, k, _, err := readCloudConfig(s.cfg.CloudConfig)
		if err != nil {
			return Token{}, misconfigured(err)
		}
		if k != s.kind || again.client != current.client || again.tenant != current.tenant {
			return Token{}, misconfigured(fmt.Errorf("cloudConfig: %s names another identity than before; start again to use it", s.cfg.CloudConfig))
		}
		current = again
	}
	if w.Tenant != "" {
		if err := CheckTenant(w.Tenant); err != nil {
			return Token{}, misconfigured(err)
		}
		current.tenant = w.Tenant
	}
	return s.fromEntra(ctx, current, w)
}
