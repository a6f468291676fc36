package artifactregistry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/gcp"
)

// The annotations by which a service account names the Google service account for its pulls.
const (
	AccountAnnotation     = credentialprovider.AnnotationPrefix + "gcp-service-account"
	PeerAccountAnnotation = "iam.gke.io/gcp-service-account"
)

// PeerOptInAnnotation is how a service account asks the peer to pull as itself, "true": here the
// configuration decides for all of them, and another value is refused.
const PeerOptInAnnotation = "iam.gke.io/enable-wi-image-pull"

// username is the user whose passwords are access tokens.
const username = "oauth2accesstoken"

// Provider serves Google's registries.
type Provider struct {
	cfg     Config
	options credentialprovider.Options
	mirrors map[string]string // by upstream
}

var _ credentialprovider.Provider = (*Provider)(nil)

// New checks the configuration and returns a Provider for it.
func New(cfg Config, o credentialprovider.Options) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	mirrors, err := cfg.mirrors()
	if err != nil {
		return nil, err // checked before
	}
	return &Provider{cfg: cfg, options: o, mirrors: mirrors}, nil
}

// isGoogle reports whether a registry is Google's, by its name. The port may only be 443: there
// are no others. docker.<region>.rep.pkg.dev are the regions' own endpoints.
func isGoogle(registry string) bool {
	host := strings.TrimSuffix(registry, ":443")
	if host == "gcr.io" || host == "container.cloud.google.com" {
		return true
	}
	label, domain, _ := strings.Cut(host, ".")
	if region, ok := strings.CutSuffix(domain, ".rep.pkg.dev"); ok && label == "docker" {
		return isLabel(region)
	}
	return (domain == "gcr.io" || domain == "pkg.dev") && isLabel(label)
}

func isLabel(text string) bool { return text != "" && !strings.ContainsAny(text, "._") }

// Serves implements credentialprovider.Provider.
func (p *Provider) Serves(image credentialprovider.Image) bool {
	return isGoogle(image.Registry) || p.mirrors[image.Registry] != ""
}

// MatchImages implements credentialprovider.Provider.
func (p *Provider) MatchImages() []string {
	return append([]string{"gcr.io", "*.gcr.io", "*.pkg.dev", "docker.*.rep.pkg.dev", "container.cloud.google.com"}, slices.Sorted(maps.Keys(p.mirrors))...)
}

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string {
	const text = section + " serves gcr.io, *.gcr.io, *.pkg.dev, docker.*.rep.pkg.dev and container.cloud.google.com, and "
	if len(p.mirrors) == 0 {
		return text + "what its mirrors list"
	}
	return text + "its mirrors list " + strings.Join(slices.Sorted(maps.Keys(p.mirrors)), ", ")
}

// Credentials implements credentialprovider.Provider.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	cfg := auth.Config{
		Scopes: []string{p.cfg.scope()}, CredentialsFile: p.cfg.CredentialsFile, Account: p.cfg.InstanceAccount, Impersonate: p.cfg.Impersonate,
	}
	if q.ServiceAccount != nil {
		if err := p.federate(&cfg, q.ServiceAccount); err != nil {
			return credentialprovider.Credentials{}, err
		}
	}
	session, err := auth.New(cfg, auth.Options{UserAgent: p.options.UserAgent, RequestTimeout: p.options.Timeout})
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	t, err := session.Token(ctx)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	return credentialprovider.Credentials{Username: username, Password: t.Value, Expires: t.Expires, Ahead: t.Ahead}, nil
}

// federate makes a login of the service account: its token is the only source.
func (p *Provider) federate(cfg *auth.Config, account *credentialprovider.ServiceAccount) error {
	if value := account.Annotations[PeerOptInAnnotation]; value != "" && value != "true" {
		return fmt.Errorf("%s has the annotation %s: %q, but with identity: serviceAccount its images are always pulled as itself; remove the annotation, or serve its images by an entry with the node's identity",
			account, PeerOptInAnnotation, cloudauth.Excerpt(value, 40))
	}
	email, err := account.Annotation(AccountAnnotation, PeerAccountAnnotation)
	if err != nil {
		return err
	}
	if email != "" {
		if err := auth.CheckAccount(email); err != nil {
			return fmt.Errorf("the annotation of %s: %w", account, err)
		}
		cfg.Impersonate = email
	}
	audience, err := auth.ProviderAudience(p.cfg.WorkloadIdentityProvider, "")
	if err != nil {
		return err // checked before
	}
	cfg.Federation = &auth.Federation{Token: account.Token, Audience: audience, Subject: account.String()}
	return nil
}
