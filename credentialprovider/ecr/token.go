package ecr

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// token is a login to a registry.
type token struct {
	user     string
	password cloudauth.Secret
	expires  time.Time     // by this machine's clock
	ahead    time.Duration // of AWS' clock
}

// getToken gets a token for a registry from the endpoint that belongs to its host name.
func getToken(ctx context.Context, session *auth.Session, r registry) (token, error) {
	if err := session.Login(ctx); err != nil {
		return token{}, err
	}
	get := privateToken
	if r.account == "" {
		get = publicToken // it raises the limits on pulls
	}
	t, err := get(ctx, session.AWS(), r)
	if err != nil && !errors.Is(err, errNoToken) {
		return token{}, session.Explain(err)
	}
	return t, err
}

// privateToken gets a token for the private registries of a region. It is for no account: what it opens is
// for the registries' policies.
func privateToken(ctx context.Context, cfg aws.Config, r registry) (token, error) {
	client := ecr.NewFromConfig(cfg, func(o *ecr.Options) {
		o.Region = r.region
		r.sort(o.BaseEndpoint != nil, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
	out, err := client.GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return token{}, err
	}
	if len(out.AuthorizationData) != 1 {
		return token{}, errNoToken
	}
	return parseToken(out.AuthorizationData[0].AuthorizationToken, out.AuthorizationData[0].ExpiresAt, out.ResultMetadata)
}

// publicToken gets a token for ECR Public, which has no FIPS endpoint.
func publicToken(ctx context.Context, cfg aws.Config, r registry) (token, error) {
	client := ecrpublic.NewFromConfig(cfg, func(o *ecrpublic.Options) {
		o.Region = r.region
		r.sort(o.BaseEndpoint != nil, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
		o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateDisabled
	})
	out, err := client.GetAuthorizationToken(ctx, &ecrpublic.GetAuthorizationTokenInput{})
	if err != nil {
		return token{}, err
	}
	if out.AuthorizationData == nil {
		return token{}, errNoToken
	}
	return parseToken(out.AuthorizationData.AuthorizationToken, out.AuthorizationData.ExpiresAt, out.ResultMetadata)
}

// sort asks for endpoints of the registry's sort, beside what the environment and the AWS config files ask for. One of
// somebody's own is of no sort: the SDK refuses both together.
func (r registry) sort(own bool, fips *aws.FIPSEndpointState, dualStack *aws.DualStackEndpointState) {
	if own {
		*fips, *dualStack = aws.FIPSEndpointStateDisabled, aws.DualStackEndpointStateDisabled
		return
	}
	if r.fips {
		*fips = aws.FIPSEndpointStateEnabled
	}
	if r.dualStack {
		*dualStack = aws.DualStackEndpointStateEnabled
	}
}

// errNoToken is an answer that has none.
var errNoToken = errors.New("AWS answered without a usable token; is a proxy or an endpoint of another service in between?")

// parseToken takes an authorization token apart, which is user:password in base64.
func parseToken(text *string, expires *time.Time, of middleware.Metadata) (token, error) {
	data, err := base64.StdEncoding.DecodeString(aws.ToString(text))
	if err != nil || strings.ContainsFunc(string(data), unicode.IsControl) {
		return token{}, errNoToken
	}
	user, password, ok := strings.Cut(string(data), ":")
	if !ok || user == "" || password == "" || expires == nil {
		return token{}, errNoToken
	}
	var ahead time.Duration
	if answer, ok := awsmiddleware.GetRawResponse(of).(*smithyhttp.Response); ok {
		ahead = wire.Ahead(answer.Header, time.Now())
	}
	return token{user: user, password: cloudauth.NewSecret(password), expires: expires.Add(-ahead), ahead: ahead}, nil
}
