package aws

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// What the node has of its own (a profile, config files, keys) is nothing to a service account, whatever is in it.
func TestNodeSettingsAreNothingToPods(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *world){
		"profile that does not exist":   func(t *testing.T, _ *world) { t.Setenv("AWS_PROFILE", "nobody") },
		"profile of the older variable": func(t *testing.T, _ *world) { t.Setenv("AWS_DEFAULT_PROFILE", "nobody") },
		"profile with endpoints, region, sort and CAs": func(t *testing.T, w *world) {
			w.write(t, ".aws/config", "[profile node]\nregion = us-gov-west-1\nendpoint_url = http://127.0.0.1:1\nuse_fips_endpoint = true\nservices = s\nca_bundle = /nowhere\n[services s]\nsts =\n  endpoint_url = http://127.0.0.1:1\n")
			t.Setenv("AWS_PROFILE", "node")
		},
		"profile with a role": func(t *testing.T, w *world) {
			w.write(t, ".aws/config", "[profile node]\nrole_arn = "+w.target+"\nsource_profile = nobody\n")
			t.Setenv("AWS_PROFILE", "node")
		},
		"default profile with an endpoint": func(t *testing.T, w *world) {
			w.write(t, ".aws/config", "[default]\nendpoint_url = http://127.0.0.1:1\n")
		},
		"files that are none": func(t *testing.T, w *world) { w.write(t, ".aws/config", "[profile\n= = \x00") },
		"no files":            func(t *testing.T, _ *world) { t.Setenv("AWS_CONFIG_FILE", "/nowhere") },
		"keys":                func(t *testing.T, w *world) { w.setUser(t) },
		"a web identity of its own": func(t *testing.T, w *world) {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token")
			t.Setenv("AWS_ROLE_ARN", w.target)
			t.Setenv("AWS_ROLE_SESSION_NAME", "node")
		},
		"a container endpoint": func(t *testing.T, _ *world) { t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.SetInstanceRole(w.instance)
			prepare(t, w)
			s, err := New(t.Context(), Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod, SessionName: "team.app"}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Check(t.Context())
			if want := "arn:aws:sts::" + account + ":assumed-role/pod/team.app"; err != nil || got != want || s.Region() != "eu-central-1" {
				t.Errorf("it is %q in %s, %v, want %q", got, s.Region(), err, want)
			}
		})
	}
}

// What the environment says of the network holds for service accounts as well.
func TestNetworkSettingsAreForPods(t *testing.T) {
	w := newWorld(t)
	cfg := Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}
	if err := check(t, cfg); err != nil {
		t.Errorf("by AWS_ENDPOINT_URL_STS: %v", err)
	}
	t.Setenv("AWS_ENDPOINT_URL_STS", "")
	if err := os.Unsetenv("AWS_ENDPOINT_URL_STS"); err != nil {
		t.Fatal(err)
	}
	if err := check(t, cfg); err != nil {
		t.Errorf("by AWS_ENDPOINT_URL: %v", err)
	}
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // nothing is asked outside
	t.Setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
	s, err := New(t.Context(), cfg, Options{Program: "p", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	if s.base.BaseEndpoint != nil {
		t.Errorf("ignored endpoints: it is %s", *s.base.BaseEndpoint)
	}
	t.Setenv("AWS_USE_FIPS_ENDPOINT", "perhaps")
	if err := check(t, cfg); err == nil || !strings.Contains(err.Error(), "AWS_USE_FIPS_ENDPOINT") {
		t.Errorf("a value that is none: %v", err)
	}
}

// A certificate that nobody vouches for is AWS_CA_BUNDLE's business, for the node and for service accounts.
func TestCABundle(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // who does not trust it says so by itself
	server.StartTLS()
	defer server.Close()
	for name, prepare := range map[string]func(*testing.T, *world) Config{
		"node": func(t *testing.T, w *world) Config { w.setUser(t); return Config{} },
		"service account": func(t *testing.T, w *world) Config {
			return Config{WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(w.token(t, "app")), RoleARN: w.pod}}
		},
	} {
		for kind, tt := range map[string]struct {
			bundle func(*testing.T, *world) string
			want   string
		}{
			"none":      {func(*testing.T, *world) string { return "" }, "has a certificate that the system's CAs do not vouch for; add the CA of the proxy or endpoint in between to the system's, or name a file of all CAs with AWS_CA_BUNDLE"},
			"another's": {func(t *testing.T, w *world) string { return w.CAFile() }, "has a certificate that AWS_CA_BUNDLE (or ca_bundle of the AWS config files) does not vouch for"},
			"the server's": {func(t *testing.T, w *world) string {
				return w.write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
			}, "answers 418 I'm a teapot, and nothing that AWS says; is a proxy or another service in between?"},
			"missing": {func(*testing.T, *world) string { return "/nowhere/ca.pem" }, "AWS_CA_BUNDLE: open /nowhere/ca.pem: no such file or directory; correct the path"},
			"no PEM":  {func(t *testing.T, w *world) string { return w.write(t, "ca.pem", "x") }, "ca.pem has no certificates (PEM) in it"},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newWorld(t)
				cfg := prepare(t, w)
				t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
				t.Setenv("AWS_CA_BUNDLE", tt.bundle(t, w))
				if err := check(t, cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		}
	}
}
