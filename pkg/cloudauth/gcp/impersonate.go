package gcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

const (
	iamService = "Google IAM"
	// iamScope is all that generateAccessToken asks for.
	iamScope = scopePrefix + "iam"
	// defaultLife is how long an impersonated token lives; more needs an organization policy.
	defaultLife = time.Hour

	accountPrefix     = "projects/-/serviceAccounts/"
	accessTokenAction = ":generateAccessToken"
)

// impersonated gives the tokens of a Google service account that another identity may be.
type impersonated struct {
	session *Session
	of      source
	email   string
	url     string
	// delegates are service accounts in between.
	delegates []string
	life      time.Duration
}

func (i *impersonated) who() string { return "service account " + i.email }

// impersonationURL is generateAccessToken for an email.
func impersonationURL(universe, email string) string {
	return "https://iamcredentials." + universe + "/v1/" + accountPrefix + email + accessTokenAction
}

// token implements source. The token in between can do nothing but this, and goes nowhere else.
func (i *impersonated) token(ctx context.Context, scopes []string) (Token, error) {
	base, err := i.of.token(ctx, []string{iamScope})
	if err != nil {
		return Token{}, err
	}
	body, err := json.Marshal(struct {
		Delegates []string `json:"delegates,omitempty"`
		Scope     []string `json:"scope"`
		Lifetime  string   `json:"lifetime"`
	}{i.delegates, scopes, fmt.Sprintf("%ds", int(i.life/time.Second))})
	if err != nil {
		return Token{}, err
	}
	r := request{
		service: iamService, operation: "generateAccessToken for " + i.email, url: i.url, body: body,
		header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + base.Value.Reveal()}},
		who:    i.of.who(), secrets: []cloudauth.Secret{base.Value}, hint: i.hint,
	}
	now := i.session.now()
	a, err := i.session.send(ctx, r)
	if err != nil {
		return Token{}, err
	}
	ahead := wire.Ahead(a.header, now)
	t, err := parseImpersonated(a.body, now.Add(ahead))
	if err != nil {
		return Token{}, r.noToken()
	}
	t.Expires, t.Ahead = t.Expires.Add(-ahead), ahead
	return t, nil
}

// hint says what to do about a refusal of IAM.
func (i *impersonated) hint(status int, _ string) string {
	role := "roles/iam.serviceAccountTokenCreator"
	if _, ok := i.of.(*federated); ok {
		role = "roles/iam.workloadIdentityUser"
	}
	switch status {
	case http.StatusForbidden:
		return fmt.Sprintf("grant that identity %s on %s", role, i.email)
	case http.StatusNotFound:
		return "there is no such service account; correct its email"
	case http.StatusUnauthorized:
		return "the token that came before is not taken; check that its identity still exists"
	}
	return "check the service account, and the lifetime and delegates if they are set"
}

// parseImpersonationURL checks a URL of generateAccessToken and returns the email in it.
func parseImpersonationURL(text, universe string) (string, error) {
	if err := checkEndpoint(text, "iamcredentials", universe); err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(text, "https://"), "/")
	email, found := strings.CutPrefix("/"+rest, "/v1/"+accountPrefix)
	email, action := strings.CutSuffix(email, accessTokenAction)
	if !found || !action {
		return "", fmt.Errorf("%q is no URL of generateAccessToken", cloudauth.Excerpt(text, 160))
	}
	return email, CheckAccount(email)
}
