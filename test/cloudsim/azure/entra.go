package azure

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// entraToken is the token endpoint: the client credentials grant with a secret or an assertion.
func (s *Sim) entraToken(c *call) (*reply, error) {
	cloud := authorities[c.host]
	if !s.hasTenant(cloud, c.tenant) {
		return nil, errorf(http.StatusBadRequest, "90002", "Tenant '%s' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud.", c.tenant)
	}
	if c.form.Get("grant_type") != "client_credentials" {
		return nil, errorf(http.StatusBadRequest, "70003", "The app requested an unsupported grant type '%s'.", c.form.Get("grant_type"))
	}
	audience, ok := audienceOf(c.form.Get("scope"))
	if !ok {
		return nil, errorf(http.StatusBadRequest, "1002012", "The provided value for scope %s is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier (application ID URI).", c.form.Get("scope"))
	}
	id := s.identities[c.form.Get("client_id")]
	if id == nil || id.Cloud != cloud || id.Identity.Tenant != c.tenant {
		return nil, errorf(http.StatusBadRequest, "700016", "Application with identifier '%s' was not found in the directory '%s'.", c.form.Get("client_id"), c.tenant)
	}
	if !strings.HasPrefix(audience, "https://containerregistry.azure.net") && !strings.HasPrefix(audience, "https://management.") {
		return nil, errorf(http.StatusBadRequest, "500011", "The resource principal named %s was not found in the tenant named %s.", audience, c.tenant)
	}
	if err := s.prove(c, id, cloud); err != nil {
		return nil, err
	}
	token, expires := s.issue(id, audience)
	left := int(time.Until(expires).Seconds())
	return jsonReply(http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": left, "ext_expires_in": left, "access_token": token}), nil
}

// audienceOf returns the one audience of a scope. The SDK adds those of OpenID, which mean nothing here.
func audienceOf(scope string) (string, bool) {
	names := slices.DeleteFunc(strings.Fields(scope), func(s string) bool { return s == "openid" || s == "offline_access" || s == "profile" })
	if len(names) != 1 {
		return "", false
	}
	return strings.CutSuffix(names[0], "/.default")
}

// prove checks what a request proves the identity with. mu held.
func (s *Sim) prove(c *call, id *identity, cloud string) error {
	if secret := c.form.Get("client_secret"); secret != "" {
		expires, ok := id.Secrets[secret]
		switch {
		case !ok:
			return errorf(http.StatusUnauthorized, "7000215", "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '%s'.", id.ClientID)
		case !expires.IsZero() && time.Now().After(expires):
			return errorf(http.StatusUnauthorized, "7000222", "The provided client secret keys for app '%s' are expired.", id.ClientID)
		}
		return nil
	}
	assertion := c.form.Get("client_assertion")
	if assertion == "" || c.form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return errorf(http.StatusUnauthorized, "7000218", "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.")
	}
	if isOwnAssertion(assertion, id.ClientID) {
		return s.verifyOwn(assertion, id, "https://"+c.host+"/"+c.tenant+"/oauth2/v2.0/token")
	}
	return s.verifyFederated(assertion, id, cloud)
}

// verifyFederated checks a token of the cluster's issuer against the federated credentials.
func (s *Sim) verifyFederated(assertion string, id *identity, cloud string) error {
	claims, err := s.Verify(assertion)
	switch {
	case errors.Is(err, cloudsim.ErrWrongIssuer):
		return errorf(http.StatusUnauthorized, "700211", "No matching federated identity record found for presented assertion issuer '%s'.", claims.Issuer)
	case errors.Is(err, cloudsim.ErrBadSignature):
		return errorf(http.StatusUnauthorized, "5002730", "Invalid JWT token. Signature validation failed.")
	case err != nil:
		return errorf(http.StatusUnauthorized, "50027", "JWT token is invalid or malformed.")
	case claims.Expired():
		return errorf(http.StatusUnauthorized, "700024", "Client assertion is not within its valid time range. Current time: %s, expiry time of assertion %s.", time.Now().UTC().Format(time.RFC3339), time.Unix(claims.Expires, 0).UTC().Format(time.RFC3339))
	case !slices.Contains(claims.Audience, exchangeAudiences[cloud]):
		return errorf(http.StatusUnauthorized, "700212", "No matching federated identity record found for presented assertion audience '%s'.", strings.Join(claims.Audience, ","))
	case !slices.Contains(id.Subjects, claims.Subject):
		return errorf(http.StatusUnauthorized, "700213", "No matching federated identity record found for presented assertion subject '%s'.", claims.Subject)
	}
	return nil
}

// discovery is where the SDK asks whether an authority is one.
func (s *Sim) discovery(c *call) (*reply, error) {
	metadata := make([]map[string]any, 0, len(authorities))
	for host := range authorities {
		metadata = append(metadata, map[string]any{"preferred_network": host, "preferred_cache": host, "aliases": []string{host}})
	}
	return jsonReply(http.StatusOK, map[string]any{
		"tenant_discovery_endpoint": c.r.URL.Query().Get("authorization_endpoint"), "api-version": "1.1", "metadata": metadata,
	}), nil
}

// openID is where the SDK asks for the endpoints of a tenant.
func (s *Sim) openID(c *call) (*reply, error) {
	base := "https://" + c.host + "/" + c.tenant
	if !s.hasTenant(authorities[c.host], c.tenant) {
		return nil, errorf(http.StatusBadRequest, "90002", "Tenant '%s' not found.", c.tenant)
	}
	return jsonReply(http.StatusOK, map[string]any{
		"token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "issuer": base + "/v2.0",
	}), nil
}
