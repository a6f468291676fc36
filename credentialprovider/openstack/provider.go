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

// ProjectAnnotation is the annotation by which a service account names the project (by its id) whose
// secrets it reads, in place of the one in cloud.conf.
const ProjectAnnotation = credentialprovider.AnnotationPrefix + "openstack-project-id"

// Provider serves the registries that cloud.conf names.
type Provider struct {
	global     auth.Config
	options    auth.Options
	session    *auth.Session             // as the node; nil with the identity of service accounts
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
	file = o.File(file)
	c, warnings, err := load(file)
	if err != nil {
		return nil, warnings, err
	}
	for _, name := range []*string{&c.Global.CAFile, &c.Global.CertFile, &c.Global.KeyFile, &c.Global.CloudsFile, &c.Global.AccessTokenFile} {
		*name = o.File(*name)
	}
	p := &Provider{global: c.Global, options: auth.Options{ConfigFile: file, UserAgent: o.UserAgent, RequestTimeout: o.Timeout}, registries: map[string]*auth.Registry{}}
	if cfg.Identity == credentialprovider.ServiceAccountIdentity {
		err = checkFederation(file, c)
	} else {
		p.session, err = auth.New(p.global, p.options)
	}
	if err != nil {
		return nil, warnings, err
	}
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

// MatchImages implements credentialprovider.Provider. Keppel's are not among them where they would only be
// refused.
func (p *Provider) MatchImages() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.registries)) {
		if p.session != nil || p.registries[name].Type != typeKeppel {
			all = append(all, name)
		}
	}
	return all
}

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string {
	if len(p.registries) == 0 {
		return "cloud.conf has no [Registry \"host:port\"] section"
	}
	return "cloud.conf has a section [Registry \"…\"] for " + strings.Join(slices.Sorted(maps.Keys(p.registries)), ", ")
}

// Credentials implements credentialprovider.Provider.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	r, ok := p.registries[q.Image.Registry]
	if !ok {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s is not configured", q.Image.Registry)
	}
	if q.ServiceAccount != nil && r.Type == typeKeppel {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s: %w", q.Image.Registry, errKeppelToken)
	}
	session, err := p.sessionOf(q.ServiceAccount)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	var c credentialprovider.Credentials
	if r.Type == typeKeppel {
		c, err = keppel(ctx, session)
	} else {
		c, err = barbican(ctx, session, r.Secret, q.Image)
	}
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	c.CacheDuration = r.CacheDuration
	return c, nil
}

// keppel returns the login in the form that Keppel takes as user and password:
// https://github.com/sapcc/keppel/blob/master/docs/api-spec.md
func keppel(ctx context.Context, session *auth.Session) (credentialprovider.Credentials, error) {
	id, err := session.Identity(ctx)
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
