package azure

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
)

// An authority is a host and nothing else.
func TestAuthorities(t *testing.T) {
	for _, good := range []string{"login.microsoftonline.com", "https://login.microsoftonline.com", "https://login.microsoftonline.com/", "https://LOGIN.microsoftonline.com:443"} {
		if host, _, err := parseAuthority(good); err != nil || host != "login.microsoftonline.com" {
			t.Errorf("%s: %q, %v", good, host, err)
		}
	}
	for _, bad := range []string{"https://login.example/tenant", "https://login.example?x=1", "https://login.example#x", "https://user@login.example", "http://login.example", "https://a b"} {
		if host, _, err := parseAuthority(bad); err == nil {
			t.Errorf("%s is taken for %s", bad, host)
		}
	}
}

// Each setting that says who somebody is, is one.
func TestHasIdentity(t *testing.T) {
	for name, c := range map[string]Config{
		"objectID": {ObjectID: client}, "resourceID": {ResourceID: resource}, "clientSecretFile": {ClientSecretFile: "/f"},
		"clientCertificateFile": {ClientCertificateFile: "/f"}, "federatedTokenFile": {FederatedTokenFile: "/f"}, "cloudConfig": {CloudConfig: "/f"},
	} {
		if !c.HasIdentity() {
			t.Errorf("%s is no identity", name)
		}
	}
	if c := (Config{TenantID: tenant, ClientID: client, Cloud: "AzureCloud"}); c.HasIdentity() {
		t.Error("an application without a proof is an identity")
	}
}

// Nothing is sent when what proves the identity cannot be read any more.
func TestNothingIsSentWithoutAProof(t *testing.T) {
	for name, set := range map[string]func(*Config, string){
		"secret":      func(c *Config, file string) { c.ClientSecretFile = file },
		"certificate": func(c *Config, file string) { c.ClientCertificateFile = file },
		"token":       func(c *Config, file string) { c.FederatedTokenFile = file },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cfg, file := Config{TenantID: tenant, ClientID: w.app.ClientID}, w.file(t, name, "x")
			set(&cfg, file)
			s := w.open(t, cfg, Options{})
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			w.ResetRequests()
			token, err := s.Token(t.Context(), registryA)
			var own *cloudauth.Error
			if !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !strings.Contains(err.Error(), file) || !token.Value.IsEmpty() {
				t.Errorf("got %v", err)
			}
			if n := len(w.Requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

// So many tokens are remembered, whoever asks for how many audiences.
func TestTokensOfManyAudiencesAreNotAllKept(t *testing.T) {
	s := newWorld(t).open(t, Config{}, Options{})
	for n := range 3 * mostTokens {
		if s.cache(Wanted{Audience: fmt.Sprint("https://", n, ".example")}); len(s.tokens) > mostTokens {
			t.Fatalf("%d are kept", len(s.tokens))
		}
	}
	one := s.cache(Wanted{Audience: arm})
	if s.cache(Wanted{Audience: arm}) != one || s.cache(Wanted{Audience: arm, Tenant: tenant}) == one || s.cache(Wanted{Audience: arm, Claims: "{}"}) == one {
		t.Error("a token is not kept for what it is, and for nothing else")
	}
}

// A client secret is kept out of an error in each form that it has had.
func TestClientSecretIsNotShownAsItIsInAForm(t *testing.T) {
	w := newWorld(t)
	escaped := url.QueryEscape(appSecret)
	w.AddFault(azuresim.Fault{Service: "entra", Status: 400, Code: "7000215", Message: "client_secret=" + escaped + "&x, that is " + appSecret})
	_, err := w.open(t, w.secret(t), Options{}).Token(t.Context(), registryA)
	if escaped == appSecret || err == nil || strings.Contains(err.Error(), escaped) || strings.Contains(err.Error(), appSecret) || strings.Count(err.Error(), cloudauth.Redacted) != 2 {
		t.Errorf("got %v", err)
	}
}
