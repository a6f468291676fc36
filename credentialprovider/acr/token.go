package acr

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// user is who logs in with a token of the registry, by ACR's documentation.
const user = "00000000-0000-0000-0000-000000000000"

// audience is what the tokens for registries are for, in all clouds. Those for Azure Resource Manager would
// work, too, but whoever got hold of one could use all of the identity's rights in Azure.
const audience = "https://containerregistry.azure.net"

// token is a login to a registry.
type token struct {
	password cloudauth.Secret
	expires  time.Time     // by this machine's clock
	ahead    time.Duration // of the registry's clock
}

// getToken gets a token of the registry for the session's identity.
func getToken(ctx context.Context, session *auth.Session, r registry, wanted string) (token, error) {
	where := "registry " + r.host
	client := session.Client()
	response, err := client.Do(ctx, auth.Request{Where: where, URL: "https://" + r.host + "/v2/"})
	if err != nil {
		return token{}, err
	}
	if response.Status != http.StatusUnauthorized {
		said, code := parseErrors(response)
		if response.Status < 300 {
			return token{}, cloudauth.NewError(cloudauth.Failed, "%s lets everybody in or is none of ACR (it answers %d without a login); if its images are for everybody, list it under anonymousRegistries", where, response.Status)
		}
		return token{}, response.Refusal(where, "to be spoken to", said, hint(response.Status, code))
	}
	service, err := serviceOf(r, response.Header.Values("Www-Authenticate"))
	if err != nil {
		return token{}, err
	}
	// Only now: a host that is no registry costs no token.
	access, err := session.Token(ctx, wanted)
	if err != nil {
		return token{}, err
	}
	form := url.Values{"grant_type": {"access_token"}, "service": {service}, "access_token": {access.Value.Reveal()}}
	// It is optional, and has to be an id.
	if tenant := session.TenantID(); auth.CheckID(tenant) == nil {
		form.Set("tenant", tenant)
	}
	response, err = client.Do(ctx, auth.Request{Where: where, URL: "https://" + r.host + "/oauth2/exchange", Form: form})
	if err != nil {
		return token{}, err
	}
	if response.Status != http.StatusOK {
		said, code := parseErrors(response, access.Value)
		return token{}, response.Refusal(where+" (exchange)", session.Who(), said, hint(response.Status, code))
	}
	t, err := parseExchange(r, response.Body)
	t.ahead = wire.Ahead(response.Header, time.Now())
	t.expires = t.expires.Add(-t.ahead)
	return t, err
}

// parseErrors reads the errors of a registry, fit for an error, and the first one's code.
func parseErrors(r *auth.Response, secrets ...cloudauth.Secret) (said, code string) {
	var out struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal(r.Body, &out) != nil || len(out.Errors) == 0 {
		return http.StatusText(r.Status), ""
	}
	message, _, _ := strings.Cut(out.Errors[0].Message, " CorrelationId:")
	return cloudauth.Excerpt(out.Errors[0].Code+": "+message, 240, secrets...), out.Errors[0].Code
}

// hint says what to do about a refusal of a registry.
func hint(status int, code string) string {
	switch {
	case status == http.StatusForbidden || code == "DENIED":
		return "the registry's network rules do not let this machine in, or its policy; allow its address or use a private endpoint"
	case status == http.StatusNotFound:
		return "check the registry's name; is it a registry of ACR?"
	case status == http.StatusUnauthorized:
		return "give this identity the role AcrPull on the registry (Container Registry Repository Reader where it has permissions by repository), and check that the registry trusts its tenant"
	}
	return "see the documentation of Azure Container Registry"
}

// parseExchange reads a refresh token, which is a JWT. It is not verified, which is for the registry: what
// it says is for the time that it is kept, and to notice that it is for another registry.
func parseExchange(r registry, body []byte) (token, error) {
	unusable := cloudauth.NewError(cloudauth.Failed, "registry %s answers without a usable token; is a proxy or another registry in between?", r.host)
	var out struct {
		RefreshToken cloudauth.Secret `json:"refresh_token"`
	}
	if json.Unmarshal(body, &out) != nil {
		return token{}, unusable
	}
	value := out.RefreshToken.Reveal()
	parts := strings.Split(value, ".")
	if len(parts) != 3 || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return token{}, unusable
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Audience string  `json:"aud"`
		Expires  float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > math.MaxInt32*100 {
		return token{}, unusable
	}
	if claims.Audience != "" && !slices.Contains([]string{r.host, r.login}, strings.ToLower(claims.Audience)) {
		return token{}, cloudauth.NewError(cloudauth.Failed, "registry %s answers with a token for %s", r.host, cloudauth.Excerpt(claims.Audience, 120))
	}
	return token{password: out.RefreshToken, expires: time.Unix(int64(claims.Expires), 0)}, nil
}
