package acr

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

// The annotations by which a service account names the application or user-assigned managed identity for its image
// pulls, and its tenant.
const (
	ClientAnnotation     = credentialprovider.AnnotationPrefix + "acr-client-id"
	TenantAnnotation     = credentialprovider.AnnotationPrefix + "acr-tenant-id"
	PeerClientAnnotation = "kubernetes.azure.com/acr-client-id"
	PeerTenantAnnotation = "kubernetes.azure.com/acr-tenant-id"
)

// tenantVariable is where Azure's SDKs have the tenant. It says nothing of who somebody is, so that
// service accounts may share it with the node.
const tenantVariable = "AZURE_TENANT_ID"

// Provider serves ACR.
type Provider struct {
	cfg     Config
	options credentialprovider.Options
	named   map[string]registry // registries and mirrors of the configuration, by what images name
}

var _ credentialprovider.Provider = (*Provider)(nil)

// New checks the configuration and returns a Provider for it.
func New(cfg Config, o credentialprovider.Options) (*Provider, error) {
	named, err := cfg.check()
	if err != nil {
		return nil, err
	}
	return &Provider{cfg: cfg, options: o, named: named}, nil
}

// Serves implements credentialprovider.Provider.
func (p *Provider) Serves(image credentialprovider.Image) bool {
	_, ok := p.registryOf(image)
	return ok
}

func (p *Provider) registryOf(image credentialprovider.Image) (registry, bool) {
	if r, ok := p.named[withoutPort443(image.Registry)]; ok {
		return r, true
	}
	return parseHost(image.Registry)
}

// MatchImages implements credentialprovider.Provider.
func (p *Provider) MatchImages() []string {
	named := slices.Clone(p.cfg.Registries)
	for _, m := range p.cfg.Mirrors {
		named = append(named, m.Upstream)
	}
	return append(patterns(), credentialprovider.MatchedNames(named...)...)
}

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string {
	text := "acr serves <registry>.azurecr.io, .cn and .us (and <registry>.<region>.geo.azurecr.io)"
	if len(p.named) == 0 {
		return text + ", and what its registries and mirrors list"
	}
	return text + ", and its registries and mirrors list " + strings.Join(slices.Sorted(maps.Keys(p.named)), ", ")
}

// Credentials implements credentialprovider.Provider. A token of a registry opens what the identity
// may do in it, and no other registry.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	r, ok := p.registryOf(q.Image)
	if !ok {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s is none of ACR's", q.Image.Registry)
	}
	session, err := p.session(r, q.ServiceAccount)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	wanted := audience
	if p.cfg.Audience != "" {
		wanted = p.cfg.Audience
	}
	t, err := getToken(ctx, session, r, wanted)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	return credentialprovider.Credentials{Username: user, Password: t.password, Expires: t.expires, Ahead: t.ahead}, nil
}

// session is the node's identity or the service account's, in the registry's cloud.
func (p *Provider) session(r registry, account *credentialprovider.ServiceAccount) (*auth.Session, error) {
	cfg := p.cfg.Config
	cfg.DefaultCloud = r.cloud
	if account != nil {
		if err := p.federate(&cfg, account); err != nil {
			return nil, err
		}
	}
	session, err := auth.New(cfg, auth.Options{UserAgent: p.options.UserAgent, RequestTimeout: p.options.Timeout})
	if err != nil {
		return nil, err
	}
	if of := session.Cloud(); of != (auth.Cloud{}) && r.cloud != (auth.Cloud{}) && of != r.cloud {
		return nil, fmt.Errorf("registry %s is in %s, but the identity is in %s: the clouds do not know each other's identities; set cloud in the section acr, or AZURE_AUTHORITY_HOST", r.host, r.cloud.Name, of.Name)
	}
	return session, nil
}

// federate sets who a service account is to Azure.
func (p *Provider) federate(cfg *auth.Config, account *credentialprovider.ServiceAccount) error {
	for _, f := range []struct {
		into  *string
		keys  [2]string
		check func(string) error
	}{{&cfg.ClientID, [2]string{ClientAnnotation, PeerClientAnnotation}, auth.CheckID}, {&cfg.TenantID, [2]string{TenantAnnotation, PeerTenantAnnotation}, auth.CheckTenant}} {
		value, err := account.Annotation(f.keys[:]...)
		switch {
		case err != nil:
			return err
		case value == "":
			continue
		}
		if err := f.check(value); err != nil {
			return fmt.Errorf("the annotation %s of %s: %w", f.keys[0], account, err)
		}
		*f.into = value
	}
	if cfg.ClientID == "" {
		return fmt.Errorf("%s names no application or managed identity for pulling; annotate it with %s (which the kubelet sends if optionalServiceAccountAnnotationKeys in its CredentialProviderConfig lists it), "+
			"or set clientID in the section acr; the node's identity is not used instead", account, ClientAnnotation)
	}
	if cfg.TenantID == "" && os.Getenv(tenantVariable) == "" {
		return fmt.Errorf("%s names no tenant for pulling; annotate it with %s, or set tenantID in the section acr or %s", account, TenantAnnotation, tenantVariable)
	}
	cfg.FederatedToken = account.Token
	return nil
}
