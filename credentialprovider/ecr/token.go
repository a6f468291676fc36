package ecr

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

// token is a login to a registry.
type token struct {
	user     string
	password cloudauth.Secret
	expires  time.Time
}

// authorization is what GetAuthorizationToken answers.
type authorization struct {
	Token         cloudauth.Secret `json:"authorizationToken"`
	ExpiresAt     float64          `json:"expiresAt"`
	ProxyEndpoint string           `json:"proxyEndpoint"`
}

// getToken gets a token for a registry from the endpoint that belongs to its host name.
func getToken(ctx context.Context, session *auth.Session, r registry) (token, error) {
	call := auth.Call{
		Operation: "GetAuthorizationToken", Region: r.region,
		Service: "ECR", Signing: "ecr", Target: "AmazonEC2ContainerRegistry_V20150921",
		// The account is no restriction, but the answer names it.
		In: map[string]any{"registryIds": []string{r.account}},
	}
	if r.account == "" {
		// A token for ECR Public raises the limits on pulls.
		call.Service, call.Signing, call.Target = "ECR PUBLIC", "ecr-public", "SpencerFrontendService"
		call.In = struct{}{}
	}
	call.Host = r.api(session.FIPS(ctx), session.DualStack(ctx))
	var answer json.RawMessage
	call.Out = &answer
	if err := session.Do(ctx, call); err != nil {
		return token{}, err
	}
	return parseAnswer(answer, r)
}

// errNoToken is an answer that is none.
var errNoToken = errors.New("AWS answered without a usable token; is a proxy or an endpoint of another service in between?")

// parseAnswer reads the one token of an answer: ECR answers with a list of them, ECR Public with one.
func parseAnswer(answer []byte, r registry) (token, error) {
	var out struct {
		Data json.RawMessage `json:"authorizationData"`
	}
	var list []authorization
	err := json.Unmarshal(answer, &out)
	if r.account == "" {
		list = make([]authorization, 1)
		err = errors.Join(err, json.Unmarshal(out.Data, &list[0]))
	} else {
		err = errors.Join(err, json.Unmarshal(out.Data, &list))
	}
	if err != nil || len(list) != 1 {
		return token{}, errNoToken
	}
	if host := strings.TrimPrefix(list[0].ProxyEndpoint, "https://"); host != "" && !strings.HasPrefix(host, r.account+".") {
		return token{}, fmt.Errorf("AWS answered with a token for registry %s, which is not that of account %s", cloudauth.Excerpt(host, 120), r.account)
	}
	return list[0].login()
}

// login takes an authorization token apart, which is user:password in base64.
func (a authorization) login() (token, error) {
	data, err := base64.StdEncoding.DecodeString(a.Token.Reveal())
	if err != nil || strings.ContainsFunc(string(data), unicode.IsControl) {
		return token{}, errNoToken
	}
	user, password, ok := strings.Cut(string(data), ":")
	if !ok || user == "" || password == "" || a.ExpiresAt <= 0 || a.ExpiresAt > math.MaxInt32*100 {
		return token{}, errNoToken
	}
	return token{user: user, password: cloudauth.NewSecret(password), expires: time.UnixMilli(int64(a.ExpiresAt * 1000))}, nil
}
