package paperregistry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const key = "k3y-of-the-node"

// registry is a registry of paper that answers who has the key, by a certificate for every name.
func registry(t *testing.T, answer string) (reach func(*http.Transport), asked *[]string) {
	t.Helper()
	asked = new([]string)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Host+r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, "who is ", r.Header.Get("Authorization"), "?")
			return
		}
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	return func(transport *http.Transport) {
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"} //nolint:gosec // Go's lowest version is fine here
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
		}
	}, asked
}

func image(t *testing.T, reference string) credentialprovider.Image {
	t.Helper()
	image, err := credentialprovider.ParseImage(reference)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// provider is one whose node has the key in a file.
func provider(t *testing.T, has string, reach func(*http.Transport)) *Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(has+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{KeyFile: file}, credentialprovider.Options{UserAgent: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p.remote = reach
	return p
}

// The tutorial shows the whole of paperregistry.go, piece by piece.
func TestTutorialShowsTheCode(t *testing.T) {
	read := func(file string) string {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var shown string
	for _, m := range regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n").FindAllStringSubmatch(read("../../add-a-registry.md"), -1) {
		shown += m[1] + "\n\n"
	}
	if diff := cmp.Diff(read("paperregistry.go"), strings.TrimSuffix(shown, "\n")); diff != "" {
		t.Errorf("(-paperregistry.go +tutorial):\n%s", diff)
	}
}

// Only paper's hosts get the key: whoever writes a Pod chooses the host in its image.
func TestServes(t *testing.T) {
	p := provider(t, key, nil)
	for reference, want := range map[string]bool{
		"shop.registry.paper.example/team/app:v1": true,
		"SHOP.registry.paper.example/app":         true,
		"registry.paper.example/app":              false,
		"a.b.registry.paper.example/app":          false,
		"shop.registry.paper.example:5000/app":    false,
		"shop.registry.paper.example.evil.org/a":  false,
		"evilregistry.paper.example/app":          false,
	} {
		if got := p.Serves(image(t, reference)); got != want {
			t.Errorf("%s: got %t, want %t", reference, got, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	reach, asked := registry(t, `{"user": "node", "password": "s3cret", "seconds": 3600}`)
	set := credentialprovider.Set{Kinds: []credentialprovider.Kind{{Name: "paper", Open: func() (credentialprovider.Provider, error) { return provider(t, key, reach), nil }}}}
	request := &credentialprovider.Request{APIVersion: "credentialprovider.kubelet.k8s.io/v1", Image: "shop.registry.paper.example/app:v1"}
	got, err := set.Answer(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := got.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"cacheKeyType":"Registry"`, `"cacheDuration":"5`, `"auth":{"shop.registry.paper.example":{"username":"node","password":"s3cret"}}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %s", out.String(), want)
		}
	}
	if fmt.Sprint(*asked) != "[shop.registry.paper.example/token]" {
		t.Errorf("asked %q", *asked)
	}
}

func TestServiceAccount(t *testing.T) {
	reach, _ := registry(t, `{"user": "pod", "password": "s3cret", "seconds": 3600}`)
	p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity}, credentialprovider.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p.remote = reach
	got, err := p.Credentials(t.Context(), credentialprovider.Query{Image: image(t, "shop.registry.paper.example/app"),
		ServiceAccount: &credentialprovider.ServiceAccount{Token: cloudauth.NewSecret(key)}})
	if err != nil || got.Username != "pod" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What goes wrong is one line that says what to do, without a secret in it.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct{ key, answer, want string }{
		"refused":    {"other-s3cret", "", "refuses the key (403 Forbidden); make a new one"},
		"no JSON":    {key, "<html>s3cret</html>", "is a proxy or another registry in between?"},
		"no user":    {key, `{"password": "s3cret", "seconds": 60}`, "without a usable token"},
		"no end":     {key, `{"user": "u", "password": "s3cret"}`, "without a usable token"},
		"for ever":   {key, `{"user": "u", "password": "s3cret", "seconds": 1000000000000}`, "without a usable token"},
		"no end too": {key, strings.Repeat("s3cret", 1<<20), "answers with more than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			reach, _ := registry(t, tt.answer)
			_, err := provider(t, tt.key, reach).Credentials(t.Context(), credentialprovider.Query{Image: image(t, "shop.registry.paper.example/app")})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), key) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := New(Config{}, credentialprovider.Options{}); err == nil {
		t.Error("a configuration without a key is accepted")
	}
}
