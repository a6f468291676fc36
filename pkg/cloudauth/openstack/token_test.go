package openstack

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Whatever Keystone answers, a login takes it over or says what is wrong, without the token and without
// a panic.
func FuzzTokenAnswer(f *testing.F) {
	const id = "gAAAAABs3cret-token"
	for _, body := range []string{
		`{"token":{"expires_at":"2030-01-01T00:00:00.000000Z","issued_at":"2029-12-31T23:00:00.000000Z","user":{"id":"u","name":"n","domain":{"name":"d"}},"project":{"id":"p","name":"k8s","domain":{"name":"d"}},"catalog":[{"type":"key-manager","endpoints":[{"interface":"public","region_id":"R","url":"https://barbican.example"}]}]}}`,
		`{"token":{"expires_at":"never","catalog":{}}}`, `{"token":{"catalog":[{"endpoints":[{"url":":"}]}]}}`, `{"token":null}`, `{}`, `[]`, `null`, `"x"`, `{"token":{"user":"x","project":[]}}`,
	} {
		f.Add(body, id)
	}
	f.Add(`{"token":{}}`, "")
	f.Fuzz(func(t *testing.T, body, token string) {
		var parsed any
		if json.Unmarshal([]byte(body), &parsed) != nil {
			return // the client refuses it before
		}
		cfg := Config{AuthURL: "https://keystone.example", IdentityProvider: "cluster", TenantID: "p"}.WithAccessToken(cloudauth.NewSecret("s3cret-access"))
		s, err := newSession(cfg, Options{}, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		var r tokens.CreateResult
		r.Body, r.Header = parsed, http.Header{"X-Subject-Token": {token}}
		l := s.login()
		err = l.accept(r)
		if err != nil && (strings.Contains(err.Error(), "\n") || len(token) >= len(id) && strings.Contains(err.Error(), token)) {
			t.Errorf("%q", err)
		}
		if err == nil && (token == "" || l.client == nil || l.catalog == nil) {
			t.Error("taken over without a token")
		}
	})
}
