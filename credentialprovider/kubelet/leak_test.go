package kubelet

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// A kubelet's token goes to nobody without TLS, nor to where somebody redirects.
func TestTokenGoesToTheAPIServerAlone(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"status":{"allowed":true}}`)) // who left needs none
	}))
	defer server.Close()
	redirects := httptest.NewTLSServer(http.RedirectHandler(server.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	for at, want := range map[string]string{
		server.URL: "its server is no https:// address", "": "no https:// address", "https://": "no https:// address",
		redirects.URL: "the API server redirects",
	} {
		file := filepath.Join(t.TempDir(), "kubelet.conf")
		text := "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: '" + at + "', certificate-authority-data: " + pemOf(redirects) + "}}]\nusers: [{name: u, user: {token: s3cret-token}}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		allowed, err := MayRequestTokens(t.Context(), file, "aud", "", "")
		if allowed || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret-token") {
			t.Errorf("%q: %v, %v, want %q", at, allowed, err, want)
		}
	}
	if asked != 0 {
		t.Errorf("the token went out %d times", asked)
	}
}

func pemOf(s *httptest.Server) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func runner(t *testing.T, script string) (Runner, Entry) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "provider"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	yes := true
	return Runner{BinDir: dir, Environ: []string{"PATH=" + os.Getenv("PATH")}, Token: cloudauth.NewSecret("s3cret-token")},
		Entry{Name: "provider", APIVersion: ProviderGroup + "/v1", CacheDuration: "10m", TokenAttributes: &TokenAttributes{Require: &yes, CacheType: CacheServiceAccount}}
}

// What a provider says of the token that it got is not shown, whether it answers or fails.
func TestTokenIsNotShown(t *testing.T) {
	r, e := runner(t, "cat >&2; echo '"+answer+"'")
	got, err := r.Run(t.Context(), e, "r.example/a")
	if err != nil || !strings.Contains(got.Said, cloudauth.Redacted) || strings.Contains(got.Said, "s3cret-token") {
		t.Errorf("it says %q, %v", got.Said, err)
	}
	r, e = runner(t, "cat >&2; exit 1")
	if _, err := r.Run(t.Context(), e, "r.example/a"); err == nil || !strings.Contains(err.Error(), cloudauth.Redacted) || strings.Contains(err.Error(), "s3cret-token") {
		t.Errorf("it fails with %v", err)
	}
}

// A provider that leaves another process behind is not waited for beyond its own end.
func TestProcessLeftBehind(t *testing.T) {
	r, e := runner(t, "sleep 30 & echo '"+answer+"'")
	if _, err := r.Run(t.Context(), e, "r.example/a"); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("got %v, want %v", err, exec.ErrWaitDelay)
	}
}
