package openstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
// that have no effect. It does not use the network. timeout bounds each request to the cloud.
func New(file, userAgent string, timeout time.Duration) (*Provider, []string, error) {
	c, warnings, err := load(file)
	if err != nil {
		return nil, warnings, err
	}
	session, err := auth.New(c.Global, auth.Options{ConfigFile: file, UserAgent: userAgent, RequestTimeout: timeout})
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

// Registries implements credentialprovider.Provider.
func (p *Provider) Registries() []string {
	names := make([]string, 0, len(p.registries))
	for name := range p.registries {
		names = append(names, name)
	}
	return names
}

// Credentials implements credentialprovider.Provider.
func (p *Provider) Credentials(ctx context.Context, image credentialprovider.Image) (credentialprovider.Credentials, error) {
	r, ok := p.registries[image.Registry]
	if !ok {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s is not configured", image.Registry)
	}
	var c credentialprovider.Credentials
	var err error
	if r.Type == typeKeppel {
		c, err = p.keppel(ctx)
	} else {
		c, err = p.barbican(ctx, r.Secret, image)
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
