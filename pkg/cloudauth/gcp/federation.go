package gcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	stsService      = "Google STS"
)

// federated exchanges the token of another issuer.
type federated struct {
	session             *Session
	audience, tokenType string
	tokenURL            string
	// clientID and clientSecret are a client's at STS, "" for none.
	clientID     string
	clientSecret cloudauth.Secret
	subject      subject
	name         string
}

func (f *federated) who() string { return "the token of " + f.name }

// token implements source.
func (f *federated) token(ctx context.Context, scopes []string) (Token, error) {
	subject, err := f.subject(ctx)
	if err != nil {
		return Token{}, err
	}
	r := request{service: stsService, operation: "token exchange", url: f.tokenURL, who: f.who(), secrets: []cloudauth.Secret{subject, f.clientSecret}, hint: f.hint}.form(url.Values{
		"grant_type": {grantExchange}, "audience": {f.audience}, "scope": {strings.Join(scopes, " ")},
		"requested_token_type": {typeAccessToken}, "subject_token_type": {f.tokenType}, "subject_token": {subject.Reveal()},
	})
	if f.clientID != "" {
		r.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(f.clientID+":"+f.clientSecret.Reveal())))
	}
	return f.session.tokenOf(ctx, r, f.session.now())
}

// hint says what to do about a refusal of STS, by the codes of RFC 6749 and RFC 8693.
func (f *federated) hint(_ int, code string) string {
	switch code {
	case "invalid_target":
		return fmt.Sprintf("the provider %s does not exist or is disabled; correct it", cloudauth.Excerpt(f.audience, 200))
	case "invalid_grant":
		return "the token has expired, or the provider's issuer, keys (JWKS) or allowed audiences do not fit it; compare them with its iss and aud"
	case "unauthorized_client":
		return "the provider's attribute condition does not take the token; correct the condition or the mapping"
	}
	return "check the provider of the workload identity pool"
}
