package gcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// Provider is a provider of a workload identity pool, or of GKE's pool of a project.
type Provider struct {
	// Name is its resource name, "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster",
	// or with GKE "identitynamespace:project.svc.id.goog:<issuer>".
	Name string
	// Audiences are those that tokens may have; nil is the provider's own name, or GKE's pool.
	Audiences []string
	// Subjects are those that the attribute condition takes; nil is all.
	Subjects []string
	// Client and ClientSecret are what requests have to have, if set.
	Client, ClientSecret string
}

// audience is the provider's at STS.
func (p *Provider) audience() string {
	if strings.HasPrefix(p.Name, "identitynamespace:") {
		return p.Name
	}
	return "//iam.googleapis.com/" + p.Name
}

// AddProvider adds a provider that trusts the cluster's issuer and returns its audience at STS.
func (s *Sim) AddProvider(p Provider) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iam.providers[p.audience()] = &p
	return p.audience()
}

// Principal is how IAM policies name a subject of a provider's pool.
func (p *Provider) Principal(subject string) string {
	if rest, ok := strings.CutPrefix(p.Name, "identitynamespace:"); ok {
		pool, _, _ := strings.Cut(rest, ":")
		return Account(pool + "[" + strings.Replace(strings.TrimPrefix(subject, "system:serviceaccount:"), ":", "/", 1) + "]")
	}
	pool, _, _ := strings.Cut(p.Name, "/providers/")
	return "principal://iam.googleapis.com/" + pool + "/subject/" + subject
}

// allowed are the audiences that tokens may have.
func (p *Provider) allowed() []string {
	if p.Audiences != nil {
		return p.Audiences
	}
	if rest, ok := strings.CutPrefix(p.Name, "identitynamespace:"); ok {
		pool, _, _ := strings.Cut(rest, ":")
		return []string{pool}
	}
	return []string{"//iam.googleapis.com/" + p.Name, "https://iam.googleapis.com/" + p.Name}
}

// exchange is a request to STS, which takes forms and JSON.
func exchange(c *call) (map[string]string, error) {
	if strings.HasPrefix(c.r.Header.Get("Content-Type"), "application/json") {
		camel := map[string]string{}
		err := json.Unmarshal(c.body, &camel)
		return camel, err
	}
	form, err := url.ParseQuery(string(c.body))
	fields := map[string]string{}
	for k := range form {
		fields[k] = form.Get(k)
	}
	return fields, err
}

// stsToken is STS' method token.
func (s *Sim) stsToken(c *call) (*reply, error) {
	refuse := func(code, format string, args ...any) (*reply, error) {
		return nil, errorf(http.StatusBadRequest, code, format, args...)
	}
	in, err := exchange(c)
	switch {
	case err != nil:
		return refuse("invalid_request", "Invalid JSON payload received.")
	case in["grant_type"] != "urn:ietf:params:oauth:grant-type:token-exchange":
		return refuse("unsupported_grant_type", "Invalid grant type")
	case in["requested_token_type"] != "urn:ietf:params:oauth:token-type:access_token":
		return refuse("invalid_request", "Invalid value for \"requestedTokenType\".")
	case in["subject_token_type"] != "urn:ietf:params:oauth:token-type:jwt" && in["subject_token_type"] != "urn:ietf:params:oauth:token-type:id_token":
		return refuse("invalid_request", "Invalid value for \"subjectTokenType\".")
	case in["scope"] == "":
		return refuse("invalid_request", "The scope field is required.")
	}
	p := s.iam.providers[in["audience"]]
	if p == nil {
		return refuse("invalid_target", "The target service indicated by the \"audience\" parameters is invalid. This might either be because the pool or provider is disabled or deleted or because it doesn't exist.")
	}
	if p.Client != "" && c.r.Header.Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.Client+":"+p.ClientSecret)) {
		return nil, errorf(http.StatusUnauthorized, "invalid_client", "The OAuth client was not found.")
	}
	token, err := s.Verify(in["subject_token"])
	switch {
	case errors.Is(err, cloudsim.ErrNotJWT):
		return refuse("invalid_request", "The subject token is not a valid JWT.")
	case errors.Is(err, cloudsim.ErrWrongIssuer):
		return refuse("invalid_grant", "The issuer in ID Token %s does not match the expected ones: %s", token.Issuer, cloudsim.IssuerURL)
	case err != nil:
		return refuse("invalid_grant", "Error connecting to the given credential's issuer. (invalid signature)")
	case token.Expired():
		return refuse("invalid_grant", "ID Token issued at %d is stale to sign-in.", token.Expires-3600)
	case !slices.ContainsFunc(token.Audience, func(a string) bool { return slices.Contains(p.allowed(), a) }):
		return refuse("invalid_grant", "The audience in ID Token [%s] does not match the expected audience.", strings.Join(token.Audience, ", "))
	case p.Subjects != nil && !slices.Contains(p.Subjects, token.Subject):
		return refuse("unauthorized_client", "The given credential is rejected by the attribute condition.")
	}
	return s.tokenAnswer(p.Principal(token.Subject), strings.Fields(in["scope"]), map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}), nil
}
