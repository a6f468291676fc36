package aws

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// Principal is a user or a role.
type Principal struct {
	// Partition is "aws" by default.
	Partition string
	Account   string
	Name      string
	// Actions are what its policy allows, such as "ecr:*" or "sts:AssumeRole".
	Actions []string
	// Registries are the accounts whose registries it may pull from; nil is its own alone.
	Registries []string
	// Trust is a role's trust policy.
	Trust Trust
}

// Trust says who may assume a role. All that is set has to hold.
type Trust struct {
	// Principals are ARNs of users and roles.
	Principals []string
	// ExternalID, SourceAccount and SourceARN are conditions of AssumeRole.
	ExternalID, SourceAccount, SourceARN string
	// Subjects are those of web identities ("system:serviceaccount:team:app"), and Audience what
	// their tokens have to be for.
	Subjects []string
	Audience string
}

// Keys are credentials.
type Keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// identity is who a set of keys belongs to.
type identity struct {
	principal *Principal
	arn       string // of the user, or of the session of the role
	secret    string
	token     string
	expires   time.Time // zero for a user's
}

type iamState struct {
	keys    map[string]*identity // by access key
	roles   map[string]*Principal
	trusted []string // audiences that the OIDC provider has
}

// Audience is what AWS' OIDC provider for the issuer expects tokens to be for.
const Audience = "sts.amazonaws.com"

func newIAM() iamState {
	return iamState{keys: map[string]*identity{}, roles: map[string]*Principal{}, trusted: []string{Audience}}
}

// partitionOf is the partition of a principal.
func (p *Principal) partitionOf() string {
	if p.Partition == "" {
		return "aws"
	}
	return p.Partition
}

// AddUser adds an IAM user and returns its access key.
func (s *Sim) AddUser(p Principal) Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newKeys(&p, fmt.Sprintf("arn:%s:iam::%s:user/%s", p.partitionOf(), p.Account, p.Name), "AKIA", time.Time{})
}

// AddRole adds an IAM role and returns its ARN.
func (s *Sim) AddRole(p Principal) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	arn := roleARNOf(&p)
	s.iam.roles[arn] = &p
	return arn
}

func roleARNOf(p *Principal) string {
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", p.partitionOf(), p.Account, p.Name)
}

// Expire lets keys expire now.
func (s *Sim) Expire(accessKeyID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.iam.keys[accessKeyID]; id != nil {
		id.expires = time.Now().Add(-time.Second)
	}
}

// newKeys makes credentials. mu held.
func (s *Sim) newKeys(p *Principal, arn, prefix string, expires time.Time) Keys {
	k := Keys{AccessKeyID: prefix + strings.ToUpper(randomText(16)), SecretAccessKey: randomText(40)}
	if !expires.IsZero() {
		k.SessionToken = "IQoJb3JpZ2luX2VjE" + randomText(400)
	}
	s.iam.keys[k.AccessKeyID] = &identity{principal: p, arn: arn, secret: k.SecretAccessKey, token: k.SessionToken, expires: expires}
	return k
}

// session makes temporary credentials of a role. mu held.
func (s *Sim) session(p *Principal, name string) (Keys, string, time.Time) {
	expires := time.Now().Add(s.opts.CredentialsLifetime).UTC().Truncate(time.Second)
	arn := fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/%s", p.partitionOf(), p.Account, p.Name, name)
	return s.newKeys(p, arn, "ASIA", expires), arn, expires
}

// allow checks the caller's policy. mu held.
func (c *call) allow(action, resource string) error {
	id := c.caller.identity
	if slices.ContainsFunc(id.principal.Actions, func(pattern string) bool { ok, err := path.Match(pattern, action); return err == nil && ok }) {
		return nil
	}
	reason := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
		id.arn, action, resource, action)
	switch c.endpoint.service {
	case "ec2":
		return errorf(http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. %s", reason)
	case "sts", elbService:
		return errorf(http.StatusForbidden, "AccessDenied", "%s", reason)
	}
	return errorf(http.StatusBadRequest, "AccessDeniedException", "%s", reason)
}

// partitionOf is the partition of a region.
func partitionOf(region string) string {
	want := "aws"
	for prefix, name := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b", "eu-isoe-": "aws-iso-e", "us-isof-": "aws-iso-f"} {
		if strings.HasPrefix(region, prefix) {
			want = name
		}
	}
	return want
}

// partition checks that credentials are used where they exist. mu held.
func (c *call) partition(region string) error {
	if c.caller.identity.principal.partitionOf() != partitionOf(region) {
		return errorf(http.StatusForbidden, c.code("InvalidClientTokenId"), "The security token included in the request is invalid.")
	}
	return nil
}

// TokenClaims are what a service account's token says.
type TokenClaims = cloudsim.TokenClaims

// webIdentity verifies a token as AWS' OIDC provider does. mu held.
func (s *Sim) webIdentity(token string) (*cloudsim.Verified, error) {
	invalid := func(format string, args ...any) error {
		return errorf(http.StatusBadRequest, "InvalidIdentityToken", format, args...)
	}
	claims, err := s.Verify(token)
	switch {
	case errors.Is(err, cloudsim.ErrWrongIssuer):
		return nil, invalid("No OpenIDConnect provider found in your account for %s", claims.Issuer)
	case errors.Is(err, cloudsim.ErrBadSignature):
		return nil, invalid("Couldn't verify signature")
	case err != nil:
		return nil, invalid("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	case claims.Expired():
		return nil, errorf(http.StatusBadRequest, "ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time")
	case !slices.ContainsFunc(claims.Audience, func(a string) bool { return slices.Contains(s.iam.trusted, a) }):
		return nil, invalid("Incorrect token audience")
	}
	return claims, nil
}
