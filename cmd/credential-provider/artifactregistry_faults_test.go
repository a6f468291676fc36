package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
)

// serveLocally starts a server and returns its host:port.
func serveLocally(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// The services' failures are told as they are; what can pass is tried again.
func TestExecArtifactRegistryFaults(t *testing.T) {
	body := func(text string) *string { return &text }
	huge := body(`{"access_token":"` + strings.Repeat("a", 1<<20) + `","token_type":"Bearer","expires_in":3599}`)
	pod := gcpCase{image: arImage, config: gcpPodIdentity, request: gcpPod("app", nil)}
	actor := gcpCase{image: arImage, config: gcpPodIdentity, request: gcpPod("app", map[string]string{ownAccountKey: pullAccount})}
	node, key := gcpCase{image: arImage}, gcpCase{image: arImage, credentials: keyFile}
	for name, tt := range map[string]struct {
		with  gcpCase
		fault gcpsim.Fault
		want  string // "" is success
	}{
		"metadata broken once":     {node, gcpsim.Fault{Service: "metadata", Times: 1, Status: 503}, ""},
		"metadata at boot":         {node, gcpsim.Fault{Service: "metadata", Times: 4, Status: 503}, ""},
		"metadata cut once":        {node, gcpsim.Fault{Service: "metadata", Times: 1, Reset: true}, ""},
		"STS cut once":             {pod, gcpsim.Fault{Service: "sts", Times: 1, Reset: true}, ""},
		"metadata broken":          {node, gcpsim.Fault{Service: "metadata", Status: 500}, "the metadata server does not work (500 Internal Server Error); it is asked again later"},
		"metadata throttled":       {node, gcpsim.Fault{Service: "metadata", Status: 429}, "the metadata server asks to slow down"},
		"not the metadata server":  {node, gcpsim.Fault{Service: "metadata", Header: http.Header{"Metadata-Flavor": nil}}, "is not Google's metadata server (Metadata-Flavor is missing)"},
		"another cloud's metadata": {node, gcpsim.Fault{Service: "metadata", Status: 404, Header: http.Header{"Metadata-Flavor": {"Amazon"}}}, "is not Google's metadata server"},
		"metadata hangs":           {node, gcpsim.Fault{Service: "metadata", Hang: true}, "does not answer in time; there are no Google credentials: outside of Google Cloud set GOOGLE_APPLICATION_CREDENTIALS"},
		"metadata cut":             {node, gcpsim.Fault{Service: "metadata", Reset: true}, "the metadata server at 127.0.0.1"},
		"metadata HTML":            {node, gcpsim.Fault{Service: "metadata", Body: body("<html>a captive portal</html>")}, "answers without a usable token; is a proxy or another service in between?"},
		"metadata huge":            {node, gcpsim.Fault{Service: "metadata", Body: huge}, "answers with more than 1024 KiB"},
		"scopes hang":              {node, gcpsim.Fault{Service: "metadata", Action: "/computeMetadata/v1/instance/service-accounts/default/scopes", Hang: true}, ""},
		"scopes unknown":           {node, gcpsim.Fault{Service: "metadata", Action: "/computeMetadata/v1/instance/service-accounts/default/scopes", Status: 404}, ""},
		"scopes HTML":              {node, gcpsim.Fault{Service: "metadata", Action: "/computeMetadata/v1/instance/service-accounts/default/scopes", Body: body("<html>a captive portal</html>")}, ""},
		"OAuth throttled once":     {key, gcpsim.Fault{Service: "oauth2", Times: 1, Status: 429, Code: "rate_limited"}, ""},
		"OAuth empty":              {key, gcpsim.Fault{Service: "oauth2", Body: body("")}, "Google OAuth (key of a service account) at oauth2.googleapis.com answers without a usable token"},
		"STS hangs":                {pod, gcpsim.Fault{Service: "sts", Hang: true}, "Google STS at sts.googleapis.com does not answer in time; check the network, firewall and proxy"},
		"STS huge":                 {pod, gcpsim.Fault{Service: "sts", Body: huge}, "Google STS at sts.googleapis.com answers with more than 1024 KiB"},
		"STS broken twice":         {pod, gcpsim.Fault{Service: "sts", Times: 2, Status: 500, Code: "internal"}, ""},
		"STS redirects":            {pod, gcpsim.Fault{Service: "sts", Status: 307, Header: http.Header{"Location": {"https://storage.googleapis.com/bucket"}}}, "Google STS (token exchange) at sts.googleapis.com answers 307, which is not followed"},
		"IAM slow":                 {actor, gcpsim.Fault{Service: "iamcredentials", Latency: 100 * time.Millisecond}, ""},
		"IAM not enabled":          {actor, gcpsim.Fault{Service: "iamcredentials", Status: 403, Code: "PERMISSION_DENIED", Message: "IAM Service Account Credentials API has not been used in project 1 before or it is disabled."}, "it is disabled.); grant that identity roles/iam.workloadIdentityUser on pull@"},
		"IAM expired":              {actor, gcpsim.Fault{Service: "iamcredentials", Body: body(`{"accessToken":"s3cret-token","expireTime":"2020-01-01T00:00:00Z"}`)}, "the credentials that the cloud gave have expired at 2020-01-01T00:00:00Z; check the clock of the node"},
		"IAM without time":         {actor, gcpsim.Fault{Service: "iamcredentials", Body: body(`{"accessToken":"s3cret-token"}`)}, "Google IAM (generateAccessToken for pull@project.iam.gserviceaccount.com) at iamcredentials.googleapis.com answers without a usable token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startGCP(t)
			w.AddFault(tt.fault)
			timeout := "--timeout=20s"
			if tt.fault.Hang && tt.want != "" {
				timeout = "--timeout=700ms"
			}
			if tt.with.config == "" {
				tt.with.config = "artifactregistry: {}\n"
			}
			got := execGCP(t, w, tt.with, timeout)
			if (got.code == 0) != (tt.want == "") || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit %d, %q, want %q", got.code, got.stderr, tt.want)
			}
			for _, r := range w.Requests() {
				if r.Host == "storage.googleapis.com" {
					t.Errorf("it follows to %s", r.Host)
				}
			}
		})
	}
}

// The peer logs an answer of the metadata server that it cannot read in full, token included.
func TestDefectMalformedTokenIsNotShown(t *testing.T) {
	for name, text := range map[string]string{
		"cut":             `{"access_token":"ya29.s3cret","expires_in":3599,"token_type":"Bea`,
		"wrong type":      `{"access_token":"ya29.s3cret","expires_in":"3599","token_type":"Bearer"}`,
		"no expiry":       `{"access_token":"ya29.s3cret","token_type":"Bearer"}`,
		"negative expiry": `{"access_token":"ya29.s3cret","expires_in":-1,"token_type":"Bearer"}`,
		"huge expiry":     `{"access_token":"ya29.s3cret","expires_in":9223372036854775807,"token_type":"Bearer"}`,
		"another type":    `{"access_token":"ya29.s3cret","expires_in":3599,"token_type":"MAC"}`,
		"line break":      `{"access_token":"ya29.s3cret\nx","expires_in":3599,"token_type":"Bearer"}`,
		"list":            `[{"access_token":"ya29.s3cret","expires_in":3599,"token_type":"Bearer"}]`,
		"two":             `{"access_token":"ya29.s3cret","expires_in":3599,"token_type":"Bearer"}{}`,
		"bare":            `ya29.s3cret`,
		"empty":           `{"access_token":"","expires_in":3599,"token_type":"Bearer"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startGCP(t)
			w.AddFault(gcpsim.Fault{Service: "metadata", Body: &text})
			got := execGCP(t, w, gcpCase{image: arImage})
			if got.code == 0 || strings.Contains(got.stderr, "s3cret") || !strings.Contains(got.stderr, "without a usable token") {
				t.Errorf("exit %d, %q", got.code, got.stderr)
			}
		})
	}
}

// The peer tells the kubelet to keep nothing, or for as long as a variable says: it does not look
// at the token's life.
func TestDefectTokenLifeDecides(t *testing.T) {
	kept := func(got outcome) time.Duration {
		_, rest, _ := strings.Cut(got.stdout, `"cacheDuration":"`)
		text, _, _ := strings.Cut(rest, `"`)
		keep, err := time.ParseDuration(text)
		if err != nil {
			t.Errorf("%v: %s", err, got.stderr)
		}
		return keep
	}
	const slow = 15 * time.Second // of this machine
	for life, want := range map[time.Duration]time.Duration{20 * time.Minute: 18 * time.Minute, 3 * time.Minute: 2 * time.Minute, 30 * time.Second: 0} {
		w := startGCPWith(t, gcpsim.Options{TokenLifetime: life})
		for name, tt := range map[string]gcpCase{
			"node": {image: arImage},
			"pod":  {image: arImage, config: gcpPodIdentity, request: gcpPod("app", map[string]string{ownAccountKey: pullAccount})},
		} {
			if keep := kept(execGCP(t, w, tt)); keep > want || keep < want-slow {
				t.Errorf("%s, a token of %s: kept %s, want %s", name, life, keep, want)
			}
		}
	}
	// What a service account's token gave is kept no longer than that lives.
	w := startGCP(t)
	keep := kept(execGCP(t, w, gcpCase{image: arImage, config: gcpPodIdentity, request: func(t *testing.T, w *gcpWorld, image string) string {
		return podRequest(t, image, w.token(t, "app", w.audience, 10*time.Minute), nil)
	}}))
	if keep > 9*time.Minute || keep < 9*time.Minute-slow {
		t.Errorf("a service account's token of 10 minutes: kept %s", keep)
	}
}

// The peer waits for a metadata server for ever, until the kubelet kills it.
func TestDefectMetadataServerIsGone(t *testing.T) {
	w := startGCP(t)
	got := execGCP(t, w, gcpCase{image: arImage, env: gcpVariable("GCE_METADATA_HOST=127.0.0.1:1")})
	if got.code != 1 || !strings.Contains(got.stderr, "the metadata server at 127.0.0.1:1 cannot be reached (dial tcp 127.0.0.1:1: connect: connection refused); there are no Google credentials") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

// Every identity opens every sort of registry, and nothing but the registry asked for.
func TestDefectOneRegistryOnly(t *testing.T) {
	w := startGCP(t)
	credentials := w.file(t, "key.json", w.key(t))
	external := w.file(t, "external.json", w.external(t, nil))
	hosts := []string{"europe-docker.pkg.dev", "docker.europe-west3.rep.pkg.dev", "us-central1-docker.pkg.dev:443", "gcr.io", "asia.gcr.io", "container.cloud.google.com", "mirror.example:5000"}
	const mirrors = "  mirrors: [{upstream: 'mirror.example:5000', registry: europe-docker.pkg.dev}]\n"
	for name, tt := range map[string]gcpCase{
		"instance": {config: "artifactregistry:\n" + mirrors, as: gcpsim.Account(nodeAccount)},
		"key":      {config: "artifactregistry:\n" + mirrors, as: gcpsim.Account(keyAccount), env: gcpVariable("GOOGLE_APPLICATION_CREDENTIALS=" + credentials)},
		"external": {config: "artifactregistry:\n" + mirrors, as: w.pool.Principal(podSubject), env: gcpVariable("GOOGLE_APPLICATION_CREDENTIALS=" + external)},
		"pod":      {config: gcpPodIdentity + mirrors, as: w.pool.Principal(podSubject), request: gcpPod("app", nil)},
		"pod as":   {config: gcpPodIdentity + mirrors, as: gcpsim.Account(pullAccount), request: gcpPod("app", map[string]string{peerAccountKey: pullAccount})},
	} {
		for _, host := range hosts {
			tt.image = host + "/project/app"
			if got := execGCP(t, w, tt); w.checkOpens(t, got, tt) == "" {
				t.Errorf("%s at %s: %s", name, host, got.stderr)
			}
		}
	}
}

// The peer asks for cloud-platform, which is everything that the owner may do.
func TestDefectScopeIsNarrow(t *testing.T) {
	w := startGCP(t)
	w.SetInstance(nodeAccount, gcpsim.ScopePlatform)
	for name, tt := range map[string]gcpCase{
		"instance":    {as: gcpsim.Account(nodeAccount)},
		"instance as": {config: "artifactregistry: {impersonate: " + pullAccount + "}\n", as: gcpsim.Account(pullAccount)},
		"key":         {credentials: keyFile, as: gcpsim.Account(keyAccount)},
		"external":    {credentials: externalWith(nil), as: w.pool.Principal(podSubject)},
		"pod":         {config: gcpPodIdentity, request: gcpPod("app", nil), as: w.pool.Principal(podSubject)},
		"pod as":      {config: gcpPodIdentity, request: gcpPod("app", map[string]string{ownAccountKey: pullAccount}), as: gcpsim.Account(pullAccount)},
	} {
		tt.image = arImage
		w.ResetTokens()
		login := loginOf(t, execGCP(t, w, tt), arImage)
		tokens := w.Tokens()
		if scopes := tokens[login.Password]; !slices.Equal(scopes, []string{gcpsim.ScopeStorage}) {
			t.Errorf("%s: the token has the scopes %v", name, scopes)
		}
		delete(tokens, login.Password)
		for _, scopes := range tokens { // those in between
			if !slices.Equal(scopes, []string{"https://www.googleapis.com/auth/iam"}) {
				t.Errorf("%s: a token in between has the scopes %v", name, scopes)
			}
		}
	}
}

// An image is pulled from Artifact Registry under its real name, with the challenge and the token
// exchange of the registry in between.
func TestPullFromArtifactRegistry(t *testing.T) {
	w := startGCP(t)
	pool, err := os.ReadFile(w.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pool)
	proxy, err := url.Parse(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	inside := serveLocally(t, w.Push().ServeHTTP)
	pushOpen(t, inside+"/project/repo/app:v1")
	ref, err := imagename.ParseReference(arImage + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	pull := func(user, password string) error {
		image, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithTransport(transport), remote.WithAuth(&authn.Basic{Username: user, Password: password}))
		if err != nil {
			return err
		}
		return validate.Image(image)
	}
	for name, tt := range map[string]gcpCase{
		"node":   {image: arImage},
		"pod":    {image: arImage, config: gcpPodIdentity, request: gcpPod("app", nil)},
		"pod as": {image: arImage, config: gcpPodIdentity, request: gcpPod("app", map[string]string{ownAccountKey: pullAccount})},
	} {
		login := loginOf(t, execGCP(t, w, tt), arImage)
		if err := pull(login.Username, login.Password); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := pull(login.Username, login.Password+"x"); err == nil {
			t.Error("a wrong token pulls; the test shows nothing")
		}
		w.ExpireTokens()
		if err := pull(login.Username, login.Password); err == nil {
			t.Error("an expired token pulls; the test shows nothing")
		}
	}
	powerlessPod := gcpCase{image: arImage, config: "artifactregistry: {impersonate: " + powerless + "}\n"}
	w.AllowActAs(powerless, gcpsim.Account(nodeAccount))
	login := loginOf(t, execGCP(t, w, powerlessPod), arImage)
	if err := pull(login.Username, login.Password); err == nil {
		t.Error("an account without the role pulls; the test shows nothing")
	}
}

// An image of a mirror is pulled with the credentials of Google's registry behind it, and with the
// service account's, not the node's.
func TestPullThroughArtifactRegistryMirror(t *testing.T) {
	w := startGCP(t)
	host := privateRegistry(t, func(user, password string) bool {
		return user == "owner" || w.Pull(user, password, "project/docker-hub/app") == nil
	})
	reference := host + "/team/app:v1"
	push(t, reference, "owner", "x")
	mirror := fmt.Sprintf("  mirrors: [{upstream: %q, registry: europe-docker.pkg.dev}]\n", host)
	for want, tt := range map[string]gcpCase{
		gcpsim.Account(nodeAccount):  {config: "artifactregistry:\n" + mirror},
		w.pool.Principal(podSubject): {config: gcpPodIdentity + mirror, request: gcpPod("app", nil)},
		gcpsim.Account(pullAccount):  {config: gcpPodIdentity + mirror, request: gcpPod("app", map[string]string{ownAccountKey: pullAccount})},
	} {
		tt.image = reference
		got := execGCP(t, w, tt)
		if err := pullWith(t, got, reference); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if member, _ := w.TokenInfo(loginOf(t, got, reference).Password); member != want {
			t.Errorf("it is pulled as %s, want %s", member, want)
		}
	}
}

// A proxy that ends TLS with a CA of its own, and one that is not there, are named.
func TestGooglesNamesAreProven(t *testing.T) {
	w := startGCP(t)
	for name, tt := range map[string]struct{ variable, want string }{
		"unknown CA": {"SSL_CERT_FILE=" + w.file(t, "empty.pem", nil), "Google STS at sts.googleapis.com has a certificate that the system's CAs do not vouch for; add the CA of the proxy"},
		"bad proxy":  {"HTTPS_PROXY=http://user:s3cret%zz@127.0.0.1:1", "Google STS at sts.googleapis.com cannot be reached (HTTPS_PROXY is no URL of a proxy; correct it: special characters of a password are written as %XX)"},
		"no proxy":   {"HTTPS_PROXY=http://127.0.0.1:1", "Google STS at sts.googleapis.com cannot be reached (proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused); check the network, firewall and proxy"},
	} {
		got := execGCP(t, w, gcpCase{image: arImage, config: gcpPodIdentity, request: gcpPod("app", nil), env: gcpVariable(tt.variable)})
		if got.code != 1 || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%s: exit %d, %s", name, got.code, got.stderr)
		}
	}
	for _, r := range w.Requests() {
		t.Errorf("something is sent: %+v", r)
	}
}

// pushOpen puts an image into a registry that lets everybody in.
func pushOpen(t *testing.T, reference string) {
	t.Helper()
	ref, err := imagename.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(512, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(fmt.Errorf("push: %w", err))
	}
}
