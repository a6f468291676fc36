package openstack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func federated(t *testing.T) (*ossim.Sim, func(lifetime time.Duration) string) {
	t.Helper()
	issuer, err := cloudsim.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	sim := ossim.ForTest(t)
	sim.AddFederation(ossim.Federation{
		IdentityProvider: "cluster", Protocol: "openid", Issuer: issuer, Audience: "keystone",
		Mapping: map[string]map[string][]string{"system:serviceaccount:kube-system:ccm": {ossim.ProjectName: {"member"}}},
	})
	return sim, func(lifetime time.Duration) string {
		t.Helper()
		token, err := issuer.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "kube-system", Name: "ccm", Audience: []string{"keystone"}, Lifetime: lifetime})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

// The file with the token is read again whenever a token is needed: its tokens end within the hour.
func TestAccessTokenFile(t *testing.T) {
	sim, token := federated(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token(time.Hour) + "\n")
	now := time.Now()
	s, err := New(Config{AuthURL: sim.AuthURL(), IdentityProvider: "cluster", AccessTokenFile: file, TenantName: ossim.ProjectName, TenantDomainName: "Default"}, Options{now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service(t.Context(), "compute"); err != nil {
		t.Error(err)
	}
	if _, err := s.Identity(t.Context()); err == nil || !strings.Contains(err.Error(), "has no user and password that another service takes") {
		t.Errorf("Identity: %v", err)
	}
	s.login().renewals = rate.NewLimiter(rate.Inf, 1)
	expired := token(-time.Minute)
	for text, want := range map[string]string{"": "holds no token", "a b": "holds no token", expired: "refuses the access token, as one of identity provider cluster (protocol openid) (401"} {
		write(text)
		err := s.login().renew(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), expired) {
			t.Errorf("%.10q: %v, want %q", text, err, want)
		}
		now = now.Add(lastRejected)
	}
	write(token(time.Hour))
	if err := s.login().renew(t.Context()); err != nil {
		t.Errorf("a new token in the file: %v", err)
	}
}

func TestAccessTokenMistakes(t *testing.T) {
	good := Config{AuthURL: "https://keystone.example/v3", IdentityProvider: "cluster", AccessTokenFile: "/token", TenantID: "p"}
	for name, tt := range map[string]struct {
		edit func(*Config)
		want string // "" is none
	}{
		"good":        {func(*Config) {}, ""},
		"no provider": {func(c *Config) { c.IdentityProvider = "" }, "identity-provider is not set"},
		"no name":     {func(c *Config) { c.IdentityProvider = "a/../b" }, `identity-provider is "a/../b": it has to be a name`},
		"no protocol": {func(c *Config) { c.Protocol = "a?b" }, `protocol is "a?b"`},
		"no project":  {func(c *Config) { c.TenantID = "" }, "tenant-id or tenant-name is not set"},
		"two logins":  {func(c *Config) { c.Username = "u" }, "access-token-file is a login of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tt.edit(&cfg)
			_, err := newSession(cfg, Options{}, func(string) string { return "" })
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A token takes the place of every other login, also of those in clouds.yaml and the environment.
func TestDefectAccessTokenIsTheOnlyLogin(t *testing.T) {
	dir := t.TempDir()
	clouds := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(clouds, []byte("clouds: {c: {auth_type: v3oidcaccesstoken, auth: {auth_url: https://keystone.example/v3, username: node, password: s3cret, user_domain_name: Default, project_name: p, project_domain_name: Default}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OS_USERNAME": "env", "OS_PASSWORD": "s3cret", "OS_TOKEN": "s3cret", "OS_TRUST_ID": "t"}
	cfg := Config{IdentityProvider: "cluster", UseClouds: true, CloudsFile: clouds, Cloud: "c", TrustID: "t", Password: cloudauth.NewSecret("s3cret")}.WithAccessToken(cloudauth.NewSecret("token"))
	got, _, err := complete(cfg, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if got != got.withoutLogins() || got.AuthURL == "" || got.TenantName != "p" || got.method() != byAccessToken {
		t.Errorf("%+v", got)
	}
	ao, err := got.authOptions()
	if err != nil || ao.Username != "" || ao.Password != "" || ao.TokenID != "" {
		t.Errorf("%+v, %v", ao, err)
	}
}

// The access token goes to Keystone's own URL and nowhere else, and into no error, whatever the answer is.
func TestDefectAccessTokenLeaves(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.of-the-pod.signature"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"found":     http.RedirectHandler(other.URL+"/v3/auth", http.StatusFound).ServeHTTP,
		"temporary": http.RedirectHandler(other.URL+"/v3/auth", http.StatusTemporaryRedirect).ServeHTTP,
		"permanent": http.RedirectHandler(other.URL+"/v3/auth", http.StatusPermanentRedirect).ServeHTTP,
		"choices": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusMultipleChoices)
			_, _ = io.WriteString(w, "you sent "+r.Header.Get("Authorization"))
		},
		"accepted": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "you sent "+r.Header.Get("Authorization"))
		},
		"challenge": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Www-Authenticate", `Bearer error="invalid_token", error_description="`+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			keystone := httptest.NewServer(answer)
			defer keystone.Close()
			base := Config{AuthURL: keystone.URL + "/v3", IdentityProvider: "cluster", TenantID: "p"}
			ofFile := base
			ofFile.AccessTokenFile = file
			for from, cfg := range map[string]Config{"kubelet": base.WithAccessToken(cloudauth.NewSecret(token)), "file": ofFile} {
				s, err := New(cfg, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Check(t.Context()); err == nil || strings.Contains(err.Error(), "of-the-pod") {
					t.Errorf("%s: %v", from, err)
				}
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
}
