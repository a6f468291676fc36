package gcp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
)

const (
	node    = "node@project.iam.gserviceaccount.com"
	pull    = "pull@project.iam.gserviceaccount.com"
	person  = "jane@example.com"
	subject = "system:serviceaccount:team:app"
)

// Google's own library takes the simulator for Google, with every type of credentials file.
func TestGooglesLibrary(t *testing.T) {
	sim, err := gcp.Start(gcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	sim.AddAccount(node)
	sim.AddAccount(pull)
	provider := gcp.Provider{Name: "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster", Client: "client", ClientSecret: "of-the-client"}
	audience := sim.AddProvider(provider)
	for _, member := range []string{gcp.Account(node), provider.Principal(subject)} {
		sim.AllowActAs(pull, member)
	}
	key, err := sim.AddKey(node)
	if err != nil {
		t.Fatal(err)
	}
	user, err := sim.AddUser(person)
	if err != nil {
		t.Fatal(err)
	}
	token, err := sim.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: "app", Audience: []string{audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	impersonation := "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + pull + ":generateAccessToken"
	external := func(more string) []byte {
		return fmt.Appendf(nil, `{"type":"external_account","audience":%q,"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token",
			"client_id":"client","client_secret":"of-the-client","credential_source":{"file":%q}%s}`, audience, file, more)
	}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, client(t, sim))
	for name, tt := range map[string]struct {
		kind google.CredentialsType
		file []byte
		as   string
	}{
		"key":          {google.ServiceAccount, key, gcp.Account(node)},
		"user":         {google.AuthorizedUser, user, "user:" + person},
		"external":     {google.ExternalAccount, external(""), provider.Principal(subject)},
		"external as":  {google.ExternalAccount, external(`,"service_account_impersonation_url":"` + impersonation + `"`), gcp.Account(pull)},
		"impersonated": {google.ImpersonatedServiceAccount, fmt.Appendf(nil, `{"type":"impersonated_service_account","service_account_impersonation_url":%q,"source_credentials":%s}`, impersonation, external("")), gcp.Account(pull)},
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid(tt.file) {
				t.Fatalf("%s", tt.file)
			}
			credentials, err := google.CredentialsFromJSONWithType(ctx, tt.file, tt.kind, gcp.ScopePlatform)
			if err != nil {
				t.Fatal(err)
			}
			got, err := credentials.TokenSource.Token()
			if err != nil {
				t.Fatal(err)
			}
			if member, _ := sim.TokenInfo(got.AccessToken); member != tt.as || time.Until(got.Expiry) < 50*time.Minute {
				t.Errorf("a token of %q until %s, want %s", member, got.Expiry, tt.as)
			}
		})
	}
	t.Run("metadata server", func(t *testing.T) {
		t.Setenv("GCE_METADATA_HOST", sim.MetadataHost())
		sim.SetInstance(node, gcp.ScopeStorage)
		got, err := google.ComputeTokenSource("", gcp.ScopeStorage).Token()
		if err != nil {
			t.Fatal(err)
		}
		if member, scopes := sim.TokenInfo(got.AccessToken); member != gcp.Account(node) || len(scopes) != 1 {
			t.Errorf("a token of %q with %v", member, scopes)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		sim.DeleteKeys(node)
		credentials, err := google.CredentialsFromJSONWithType(ctx, key, google.ServiceAccount, gcp.ScopePlatform)
		if err != nil {
			t.Fatal(err)
		}
		_, err = credentials.TokenSource.Token()
		if err == nil || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("a deleted key: %v", err)
		}
		sim.AddFault(gcp.Fault{Service: "sts", Status: 403, Code: "unauthorized_client", Message: "no"})
		credentials, err = google.CredentialsFromJSONWithType(ctx, external(""), google.ExternalAccount, gcp.ScopePlatform)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = credentials.TokenSource.Token(); err == nil || !strings.Contains(err.Error(), "status code 403") {
			t.Errorf("a fault: %v", err)
		}
	})
	for _, r := range sim.Requests() {
		if r.Service == "" || r.Action == "" || r.Status == 0 {
			t.Errorf("the log has %+v", r)
		}
	}
	if hosts := sim.Refused(); len(hosts) != 0 {
		t.Errorf("refused %v", hosts)
	}
}

// client is one that takes the simulator for its proxy.
func client(t *testing.T, sim *gcp.Sim) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(sim.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	proxy, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
