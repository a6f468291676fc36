package gcp

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// grantOf is the short name of the grant type of a request.
func grantOf(c *call) string {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return ""
	}
	grant := form.Get("grant_type")
	return grant[strings.LastIndexByte(grant, ':')+1:]
}

// tokenAnswer is what token endpoints answer.
func (s *Sim) tokenAnswer(member string, scopes []string, more map[string]any) *reply {
	value, t := s.newToken(member, scopes, s.opts.TokenLifetime)
	out := map[string]any{"access_token": value, "token_type": "Bearer", "expires_in": int(time.Until(t.expires) / time.Second)}
	for k, v := range more {
		out[k] = v
	}
	return jsonReply(http.StatusOK, out)
}

// oauthToken is the token endpoint of OAuth.
func (s *Sim) oauthToken(c *call) (*reply, error) {
	paths := map[string]string{"oauth2.googleapis.com": "/token", "accounts.google.com": "/o/oauth2/token", "www.googleapis.com": "/oauth2/v4/token"}
	if c.r.Method != http.MethodPost || c.r.URL.Path != paths[c.host] {
		return nil, errorf(http.StatusNotFound, "not_found", "no such page")
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil || c.r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Bad Request")
	}
	switch form.Get("grant_type") {
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		return s.jwtBearer(form.Get("assertion"), "https://"+c.host+c.r.URL.Path)
	case "refresh_token":
		u, ok := s.iam.users[form.Get("refresh_token")]
		if !ok {
			return nil, errorf(http.StatusBadRequest, "invalid_grant", "Token has been expired or revoked.")
		}
		if form.Get("client_id") != u.id || form.Get("client_secret") != u.secret {
			return nil, errorf(http.StatusUnauthorized, "invalid_client", "The OAuth client was not found.")
		}
		if form.Get("scope") != "" {
			return nil, errorf(http.StatusBadRequest, "invalid_scope", "Some requested scopes were invalid.")
		}
		return s.tokenAnswer("user:"+u.email, u.scopes, map[string]any{"scope": strings.Join(u.scopes, " "), "id_token": "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}), nil
	}
	return nil, errorf(http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: %s", form.Get("grant_type"))
}

// jwtBearer verifies an assertion of a service account. mu held.
func (s *Sim) jwtBearer(assertion, audience string) (*reply, error) {
	invalid := func(message string) (*reply, error) {
		return nil, errorf(http.StatusBadRequest, "invalid_grant", "%s", message)
	}
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return nil, errorf(http.StatusBadRequest, "invalid_request", "Bad Request")
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	enc := base64.RawURLEncoding
	h, err1 := enc.DecodeString(parts[0])
	p, err2 := enc.DecodeString(parts[1])
	signature, err3 := enc.DecodeString(parts[2])
	if errors.Join(err1, err2, err3, json.Unmarshal(h, &header), json.Unmarshal(p, &claims)) != nil || header.Alg != "RS256" {
		return invalid("Invalid JWT: Failed audience check.")
	}
	keys, known := s.iam.accounts[claims.Iss]
	if !known {
		return invalid("Invalid grant: account not found")
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if key := keys[header.Kid]; key == nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], signature) != nil {
		return invalid("Invalid JWT Signature.")
	}
	now := time.Now().Unix()
	switch {
	case claims.Aud != audience:
		return invalid("Invalid JWT: Failed audience check. The right audience is https://oauth2.googleapis.com/token")
	case claims.Exp < now || claims.Iat > now+60 || claims.Exp-claims.Iat > 3600:
		return invalid("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.")
	case claims.Scope == "":
		return nil, errorf(http.StatusBadRequest, "invalid_scope", "Invalid OAuth scope or ID token audience provided.")
	}
	return s.tokenAnswer(Account(claims.Iss), strings.Fields(claims.Scope), nil), nil
}
