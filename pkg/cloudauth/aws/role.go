package aws

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// assumed gives the credentials of a role, assumed with those of base, which are got first: what goes wrong with
// them is no failure of the role.
func (s *Session) assumed(base aws.Config, role Role) aws.CredentialsProvider {
	client := sts.NewFromConfig(base, func(o *sts.Options) {
		o.Region = s.cfg.regionFor(o.Region, role.ARN)
		if role.SourceARN != "" {
			o.APIOptions = append(o.APIOptions, header("x-amz-source-arn", role.SourceARN))
		}
		if account := cmp.Or(role.SourceAccount, accountOf(role.SourceARN)); account != "" {
			o.APIOptions = append(o.APIOptions, header("x-amz-source-account", account))
		}
	})
	provider := stscreds.NewAssumeRoleProvider(client, role.ARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = sessionName(role.SessionName)
		if role.ExternalID != "" {
			o.ExternalID = &role.ExternalID
		}
	})
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		if c, err := base.Credentials.Retrieve(ctx); err != nil {
			return c, err
		}
		return provider.Retrieve(ctx)
	})
}

// header sets a header before the request is signed, so that it is signed, too.
func header(name, value string) func(*middleware.Stack) error {
	return smithyhttp.SetHeaderValue(name, value)
}

// webIdentity gives the credentials of a role that trusts the token. The request is not
// signed: nobody's credentials but the token go into it.
func (s *Session) webIdentity(base aws.Config, w WebIdentity) aws.CredentialsProvider {
	base.Credentials = aws.AnonymousCredentials{}
	base.Region = s.cfg.regionFor(base.Region, w.RoleARN)
	return stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(base), w.RoleARN, token(w.Token.Reveal()), func(o *stscreds.WebIdentityRoleOptions) {
		o.RoleSessionName = sessionName(w.SessionName)
	})
}

// token is a web identity token that is at hand.
type token string

// GetIdentityToken implements stscreds.IdentityTokenRetriever.
func (t token) GetIdentityToken() ([]byte, error) { return []byte(t), nil }

// Check asks AWS who the credentials are, and returns the answer, an ARN.
func (s *Session) Check(ctx context.Context) (string, error) {
	who, err := sts.NewFromConfig(s.base).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", s.Explain(err)
	}
	return aws.ToString(who.Arn), nil
}
