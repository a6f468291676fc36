package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// Provider serves the registries that cloud.conf names.
type Provider struct {
	session    *auth.Session
	registries map[string]*auth.Registry // by normal name
}

var _ credentialprovider.Provider = (*Provider)(nil)

// New reads cloud.conf and returns a Provider for its registries, with warnings about keys
// that have no effect. It does not use the network.
func New(cfg Config, o credentialprovider.Options) (*Provider, []string, error) {
	file := cfg.CloudConfig
	if file == "" {
		file = DefaultCloudConfig
	}
	if cfg.Identity == credentialprovider.ServiceAccountIdentity {
		return nil, nil, errors.New("openstack: service account tokens are not taken yet; set identity: node and remove tokenAttributes from the kubelet's CredentialProviderConfig")
	}
	c, warnings, err := load(file)
	if err != nil {
		return nil, warnings, err
	}
	session, err := auth.New(c.Global, auth.Options{ConfigFile: file, UserAgent: o.UserAgent, RequestTimeout: o.Timeout})
	if err != nil {
		return nil, warnings, err
	}
	p := &Provider{session: session, registries: map[string]*auth.Registry{}}
	for name, r := range c.Registry {
		normal, err := credentialprovider.NormalRegistry(name)
		if err != nil {
			return nil, warnings, err // checked before
		}
		p.registries[normal] = r
	}
	return p, warnings, nil
}

// Serves implements credentialprovider.Provider.
func (p *Provider) Serves(image credentialprovider.Image) bool {
	return p.registries[image.Registry] != nil
}

// MatchImages implements credentialprovider.Provider.
func (p *Provider) MatchImages() []string { return slices.Sorted(maps.Keys(p.registries)) }

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string {
	if len(p.registries) == 0 {
		return "cloud.conf has no [Registry \"host:port\"] section"
	}
	return "cloud.conf has a section [Registry \"…\"] for " + strings.Join(p.MatchImages(), ", ")
}

// Credentials implements credentialprovider.Provider.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	r, ok := p.registries[q.Image.Registry]
	if !ok {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s is not configured", q.Image.Registry)
	}
	var c credentialprovider.Credentials
	var err error
	if r.Type == typeKeppel {
		c, err = p.keppel(ctx)
	} else {
		c, err = p.barbican(ctx, r.Secret, q.Image)
	}
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	c.CacheDuration = r.CacheDuration
	return c, nil
}

// keppel returns the login in the form that Keppel takes as user and password:
// https://github.com/sapcc/keppel/blob/master/docs/api-spec.md
func (p *Provider) keppel(ctx context.Context) (credentialprovider.Credentials, error) {
	id, err := p.session.Identity(ctx)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	if id.ApplicationCredentialID != "" {
		return credentialprovider.Credentials{Username: "applicationcredential-" + id.ApplicationCredentialID, Password: id.Secret}, nil
	}
	for _, name := range []string{id.User, id.UserDomain, id.Project, id.ProjectDomain} {
		if name == "" {
			return credentialprovider.Credentials{}, errors.New("the login of [Global] in cloud.conf is for no project, but Keppel needs one; set tenant-name, or use an application credential")
		}
		if strings.ContainsAny(name, "@/") {
			return credentialprovider.Credentials{}, fmt.Errorf("the name %q has an @ or /, which Keppel cannot tell from its own; use an application credential in [Global] of cloud.conf", name)
		}
	}
	return credentialprovider.Credentials{
		Username: fmt.Sprintf("%s@%s/%s@%s", id.User, id.UserDomain, id.Project, id.ProjectDomain),
		Password: id.Secret,
	}, nil
}
