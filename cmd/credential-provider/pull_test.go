package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// privateRegistry starts a registry that lets in whom check accepts, and returns its host:port.
func privateRegistry(t *testing.T, check func(user, password string) bool) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || !check(user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// pull asks the binary for credentials as the kubelet does and pulls with them.
func pull(t *testing.T, conf, reference string) error {
	t.Helper()
	return pullWith(t, execute(t, request("v1", reference), "--cloud-config", writeConf(t, conf)), reference)
}

// pullWith pulls with what the binary answered.
func pullWith(t *testing.T, got outcome, reference string) error {
	t.Helper()
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	var response struct {
		APIVersion, Kind, CacheKeyType, CacheDuration string
		Auth                                          map[string]struct{ Username, Password string }
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(got.stdout)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&response); err != nil {
		t.Fatal(err)
	}
	ref, err := imagename.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	login, ok := response.Auth[ref.Context().RegistryStr()]
	if !ok || len(response.Auth) != 1 {
		t.Fatalf("the response is not for %s alone: %d entries", ref.Context().RegistryStr(), len(response.Auth))
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: login.Username, Password: login.Password}))
	if err != nil {
		return err
	}
	return validate.Image(image)
}

// push puts an image into the registry.
func push(t *testing.T, reference, user, password string) {
	t.Helper()
	ref, err := imagename.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(512, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image, remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Image(ref, remote.WithContext(t.Context())); err == nil {
		t.Fatal("the registry gives the image to anyone; the test shows nothing")
	}
}

func TestPullWithCredentialsFromBarbican(t *testing.T) {
	sim := ossim.ForTest(t)
	const user, password = "puller", "pa:ss word"
	host := privateRegistry(t, func(u, p string) bool { return u == user && p == password })
	image := host + "/team/app"
	push(t, image, user, password)
	conf := login(sim) + fmt.Sprintf("[Registry %q]\ntype = barbican\nsecret = registry\n", host)

	storeSecret(t, sim, "registry", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password))))
	if err := pull(t, conf, image); err != nil {
		t.Errorf("pulling: %v", err)
	}
	storeSecret(t, sim, "wrong", fmt.Sprintf(`{"auths":{%q:{"username":"puller","password":"wrong"}}}`, host))
	if err := pull(t, strings.Replace(conf, "secret = registry", "secret = wrong", 1), image); err == nil {
		t.Error("a wrong password pulls; the test shows nothing")
	}
}

// The registry asks Keystone about whoever comes, as Keppel does.
func TestPullFromKeppel(t *testing.T) {
	sim := ossim.ForTest(t)
	host := privateRegistry(t, func(user, password string) bool { return keystoneAccepts(t, sim, user, password) })
	image := host + "/account/app"
	push(t, image, "k8s@Default/k8s@Default", ossim.UserPassword)
	conf := login(sim) + fmt.Sprintf("[Registry %q]\ntype = keppel\n", host)
	if err := pull(t, conf, image); err != nil {
		t.Errorf("pulling with a password: %v", err)
	}
	if err := pull(t, strings.Replace(conf, "password = secret", "password = wrong", 1), image); err == nil {
		t.Error("a wrong password pulls; the test shows nothing")
	}
	id, secret := newAppCredential(t, sim)
	conf = fmt.Sprintf("[Global]\nauth-url = %s\napplication-credential-id = %s\napplication-credential-secret = %q\n[Registry %q]\ntype = keppel\n", sim.AuthURL(), id, secret, host)
	if err := pull(t, conf, image); err != nil {
		t.Errorf("pulling with an application credential: %v", err)
	}
}

// keystoneAccepts logs in to Keystone with a user name in Keppel's form.
func keystoneAccepts(t *testing.T, sim *ossim.Sim, user, password string) bool {
	cfg := auth.Config{AuthURL: sim.AuthURL()}
	if id, ok := strings.CutPrefix(user, "applicationcredential-"); ok {
		cfg.ApplicationCredentialID, cfg.ApplicationCredentialSecret = id, cloudauth.NewSecret(password)
	} else {
		who, where, _ := strings.Cut(user, "/")
		cfg.Username, cfg.UserDomainName, _ = strings.Cut(who, "@")
		cfg.TenantName, cfg.TenantDomainName, _ = strings.Cut(where, "@")
		cfg.Password = cloudauth.NewSecret(password)
	}
	session, err := auth.New(cfg, auth.Options{})
	return err == nil && session.Check(t.Context()) == nil
}

// newAppCredential makes an application credential of the simulator's user.
func newAppCredential(t *testing.T, sim *ossim.Sim) (id, secret string) {
	t.Helper()
	session, err := auth.New(auth.Config{
		AuthURL: sim.AuthURL(), Username: ossim.UserName, Password: cloudauth.NewSecret(ossim.UserPassword),
		TenantName: ossim.ProjectName, DomainName: "Default",
	}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := session.Service(t.Context(), "key-manager") // any; only its token counts
	if err != nil {
		t.Fatal(err)
	}
	token := client.GetAuthResult().(tokens.CreateResult)
	user, err := token.ExtractUser()
	if err != nil {
		t.Fatal(err)
	}
	client.Endpoint, client.ResourceBase = sim.AuthURL()+"/", ""
	ac, err := applicationcredentials.Create(t.Context(), client, user.ID, applicationcredentials.CreateOpts{Name: "node"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return ac.ID, ac.Secret
}
