package ecr

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

// The annotations by which a service account names the role for its image pulls.
const (
	RoleAnnotation     = credentialprovider.AnnotationPrefix + "ecr-role-arn"
	PeerRoleAnnotation = "eks.amazonaws.com/ecr-role-arn"
)

// Audience is for whom AWS expects the tokens of service accounts to be, unless its OIDC provider was
// made with another one.
const Audience = "sts.amazonaws.com"

// roleVariable is the peer's variable for the role of service accounts that name none.
const roleVariable = "AWS_ECR_ROLE_ARN"

// Provider serves ECR.
type Provider struct {
	cfg     Config
	options credentialprovider.Options
	mirrors map[string]registry // by upstream
}

var _ credentialprovider.Provider = (*Provider)(nil)

// New checks the configuration and returns a Provider for it.
func New(cfg Config, o credentialprovider.Options) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, options: o, mirrors: map[string]registry{}}
	mirrors, err := cfg.mirrors()
	if err != nil {
		return nil, err // checked before
	}
	for upstream, host := range mirrors {
		p.mirrors[upstream], _ = parseHost(host)
	}
	return p, nil
}

// Serves implements credentialprovider.Provider.
func (p *Provider) Serves(image credentialprovider.Image) bool {
	_, ok := p.registryOf(image)
	return ok
}

func (p *Provider) registryOf(image credentialprovider.Image) (registry, bool) {
	if r, ok := p.mirrors[image.Registry]; ok {
		return r, true
	}
	return parseHost(image.Registry)
}

// MatchImages implements credentialprovider.Provider.
func (p *Provider) MatchImages() []string {
	return append(patterns(), p.upstreams()...)
}

func (p *Provider) upstreams() []string {
	var all []string
	for _, m := range p.cfg.Mirrors {
		all = append(all, m.Upstream)
	}
	return credentialprovider.MatchedNames(all...)
}

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string {
	text := "ecr serves public.ecr.aws and <account>.dkr.ecr.<region>.amazonaws.com (FIPS, dual-stack and other partitions included)"
	if len(p.mirrors) == 0 {
		return text + ", and what its mirrors list"
	}
	return text + ", and its mirrors list " + strings.Join(p.upstreams(), ", ")
}

// Credentials implements credentialprovider.Provider. AWS has no tokens for one image or one
// registry: a token opens what its owner may pull in the region. The answer is for the one
// registry nevertheless.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	r, ok := p.registryOf(q.Image)
	if !ok {
		return credentialprovider.Credentials{}, fmt.Errorf("registry %s is none of ECR's", q.Image.Registry)
	}
	session, err := p.session(ctx, r, q.ServiceAccount)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	t, err := getToken(ctx, session, r)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	return credentialprovider.Credentials{Username: t.user, Password: t.password, Expires: t.expires, Ahead: t.ahead}, nil
}

// session logs in as the node or as the service account, and assumes the role of the
// registry's account if there is one.
func (p *Provider) session(ctx context.Context, r registry, account *credentialprovider.ServiceAccount) (*auth.Session, error) {
	cfg := auth.Config{Region: p.cfg.STSRegion, DefaultRegion: r.region, Profile: p.cfg.Profile}
	if account != nil {
		w, err := p.webIdentity(account)
		if err != nil {
			return nil, err
		}
		cfg.WebIdentity = w
	}
	program, version, _ := strings.Cut(p.options.UserAgent, "/")
	session, err := auth.New(ctx, cfg, auth.Options{Program: program, Version: version, RequestTimeout: p.options.Timeout})
	if err != nil {
		return nil, err
	}
	role, ok := p.cfg.Accounts[r.account]
	if !ok {
		return session, nil
	}
	if account != nil {
		role.SessionName = nameOf(account)
	}
	return session.Assume(role)
}

// webIdentity is how a service account logs in: with its token, as the role that it names or
// else the configured one.
func (p *Provider) webIdentity(account *credentialprovider.ServiceAccount) (*auth.WebIdentity, error) {
	role, err := account.Annotation(RoleAnnotation, PeerRoleAnnotation)
	if err != nil {
		return nil, err
	}
	from := "the annotation of " + account.String()
	if role == "" {
		role, from = p.cfg.RoleARN, "roleARN in the section ecr"
	}
	if role == "" {
		role, from = os.Getenv(roleVariable), roleVariable
	}
	if role == "" {
		return nil, fmt.Errorf("%s names no IAM role for pulling; annotate it with %s (which the kubelet sends if optionalServiceAccountAnnotationKeys in its CredentialProviderConfig lists it), "+
			"or set roleARN in the section ecr or %s; the node's credentials are not used instead", account, RoleAnnotation, roleVariable)
	}
	if err := auth.CheckRoleARN(role); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return &auth.WebIdentity{Token: account.Token, RoleARN: role, SessionName: nameOf(account)}, nil
}

// nameOf is the session name of a service account, which CloudTrail shows.
func nameOf(account *credentialprovider.ServiceAccount) string {
	return strings.ReplaceAll(strings.TrimPrefix(account.Subject, "system:serviceaccount:"), ":", ".")
}
