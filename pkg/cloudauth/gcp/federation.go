package gcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	stsService      = "Google STS"
	// maxSubject bounds what is read of a file with a subject token.
	maxSubject = 256 << 10
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

// subject gives the token to be exchanged.
type subject func(ctx context.Context) (cloudauth.Secret, error)

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
		basic := url.QueryEscape(f.clientID) + ":" + url.QueryEscape(f.clientSecret.Reveal())
		r.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(basic)))
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

// given is a subject token that is at hand.
func given(token cloudauth.Secret) subject {
	return func(context.Context) (cloudauth.Secret, error) { return token, nil }
}

// subjectFormat is how a subject token is found in what is read.
type subjectFormat struct {
	Type  string `json:"type"`
	Field string `json:"subject_token_field_name"`
}

// parse takes the subject token out of what was read, false if there is none.
func (f subjectFormat) parse(data []byte) (cloudauth.Secret, bool) {
	text := strings.TrimSpace(string(data))
	if f.Type == "json" {
		var fields map[string]any
		if decodeOne(data, &fields) != nil {
			return cloudauth.Secret{}, false
		}
		text, _ = fields[f.Field].(string)
	}
	// A token is a word: what has spaces or line breaks in it is something else.
	return cloudauth.NewSecret(text), text != "" && isPrintable(text)
}

// ofFile reads the subject token from a file, each time: others renew it.
func (f subjectFormat) ofFile(config, file string) subject {
	return func(context.Context) (cloudauth.Secret, error) {
		in, err := os.Open(file)
		if err != nil {
			return cloudauth.Secret{}, errorf(NoCredentials, "%s: the subject token cannot be read: %v", config, err)
		}
		defer func() { _ = in.Close() }() // it was only read
		data, err := io.ReadAll(io.LimitReader(in, maxSubject+1))
		if err != nil {
			return cloudauth.Secret{}, errorf(NoCredentials, "%s: the subject token cannot be read: %v", config, err)
		}
		token, ok := f.parse(data)
		if !ok || len(data) > maxSubject {
			return cloudauth.Secret{}, errorf(NoCredentials, "%s: %s holds no subject token; check credential_source.format", config, file)
		}
		return token, nil
	}
}

// ofURL gets the subject token from a server.
func (f subjectFormat) ofURL(s *Session, config string, u *url.URL, fields map[string]string) subject {
	return func(ctx context.Context) (cloudauth.Secret, error) {
		r := request{
			service: "the source of the subject token", method: http.MethodGet, url: u.String(), local: isLocal(u.Hostname()),
			header: http.Header{}, who: "the request of " + config,
			hint: func(int, string) string { return "check credential_source in " + config },
		}
		for k, v := range fields {
			r.header.Set(k, v)
			r.secrets = append(r.secrets, cloudauth.NewSecret(v)) // it may be a password
		}
		a, err := s.caller.do(ctx, r)
		if err != nil {
			return cloudauth.Secret{}, err
		}
		token, ok := f.parse(a.body)
		if !ok {
			return cloudauth.Secret{}, errorf(NoCredentials, "%s: %s answers without a subject token; check credential_source.format", config, r.host())
		}
		return token, nil
	}
}
