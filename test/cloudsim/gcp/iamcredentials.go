package gcp

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

const accountsPath = "projects/-/serviceAccounts/"

// generateAccessToken is IAM's method of that name.
func (s *Sim) generateAccessToken(c *call) (*reply, error) {
	value, _ := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	caller := s.iam.tokens[value]
	if caller == nil || time.Now().After(caller.expires) {
		return nil, errorf(http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.")
	}
	if !slices.Contains(caller.scopes, scopeIAM) && !slices.Contains(caller.scopes, ScopePlatform) {
		return nil, errorf(http.StatusForbidden, "PERMISSION_DENIED", "Request had insufficient authentication scopes.")
	}
	var in struct {
		Delegates []string `json:"delegates"`
		Scope     []string `json:"scope"`
		Lifetime  string   `json:"lifetime"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return nil, errorf(http.StatusBadRequest, "INVALID_ARGUMENT", "Invalid JSON payload received. %v", err)
	}
	life := time.Hour
	if in.Lifetime != "" {
		var err error
		if life, err = time.ParseDuration(in.Lifetime); err != nil || life <= 0 || life > time.Hour {
			return nil, errorf(http.StatusBadRequest, "INVALID_ARGUMENT", "The lifetime exceeds the maximum allowed.")
		}
	}
	if len(in.Scope) == 0 {
		return nil, errorf(http.StatusBadRequest, "INVALID_ARGUMENT", "Scope required.")
	}
	email := strings.TrimSuffix(strings.TrimPrefix(c.r.URL.Path, "/v1/"+accountsPath), ":generateAccessToken")
	member := caller.member
	for _, next := range append(in.Delegates, accountsPath+email) {
		name, ok := strings.CutPrefix(next, accountsPath)
		if _, known := s.iam.accounts[name]; !ok || !known {
			return nil, errorf(http.StatusNotFound, "NOT_FOUND", "Not found; Gaia id not found for email %s", name)
		}
		if !slices.Contains(s.iam.actors[name], member) {
			return nil, errorf(http.StatusForbidden, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).")
		}
		member = Account(name)
	}
	token, t := s.newToken(member, in.Scope, min(life, s.opts.TokenLifetime))
	return jsonReply(http.StatusOK, map[string]string{"accessToken": token, "expireTime": t.expires.UTC().Format(time.RFC3339)}), nil
}
