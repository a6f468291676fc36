package openstack

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store keeps a payload in the simulator's Barbican and returns the secret's reference.
func store(t *testing.T, sim *ossim.Sim, opts secrets.CreateOpts) string {
	t.Helper()
	p := provider(t, sim, "")
	client, err := p.session.Service(t.Context(), "key-manager")
	if err != nil {
		t.Fatal(err)
	}
	s, err := secrets.Create(t.Context(), client, opts).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return s.SecretRef
}

func textSecret(name, payload string) secrets.CreateOpts {
	return secrets.CreateOpts{Name: name, Payload: payload, PayloadContentType: "text/plain", SecretType: secrets.OpaqueSecret}
}

// global is the simulator's login.
func global(sim *ossim.Sim) string {
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = RegionOne\nusername = k8s\npassword = secret\ntenant-name = k8s\nuser-domain-name = Default\ntenant-domain-name = Default\n", sim.AuthURL())
}

func provider(t *testing.T, sim *ossim.Sim, registries string) *Provider {
	t.Helper()
	p, warnings, err := New(Config{CloudConfig: confFile(t, global(sim)+registries)}, credentialprovider.Options{UserAgent: "test", Timeout: 5 * time.Second})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("New: %v, warnings %q", err, warnings)
	}
	return p
}

func confFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func ask(t *testing.T, p *Provider, reference string) (credentialprovider.Credentials, error) {
	t.Helper()
	image, err := credentialprovider.ParseImage(reference)
	if err != nil {
		t.Fatal(err)
	}
	return p.Credentials(t.Context(), credentialprovider.Query{Image: image})
}

const dockerConfigJSON = `{"auths":{"r.example:5000":{"username":"puller","password":"from-barbican"}}}`

func TestBarbican(t *testing.T) {
	sim := ossim.ForTest(t)
	ref := store(t, sim, textSecret("registry", dockerConfigJSON))
	id := ref[strings.LastIndexByte(ref, '/')+1:]
	octets := store(t, sim, secrets.CreateOpts{Name: "octets", Payload: base64.StdEncoding.EncodeToString([]byte(dockerConfigJSON)), PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64"})
	for name, secret := range map[string]string{
		"reference": ref, "id": id, "name": "registry", "bytes": octets,
		"reference to another host": "http://192.0.2.1/v1/secrets/" + id,
	} {
		t.Run(name, func(t *testing.T) {
			p := provider(t, sim, "[Registry \"R.example:5000\"]\ntype = barbican\nsecret = \""+secret+"\"\ncache-duration = 10m\n")
			got, err := ask(t, p, "r.example:5000/team/app")
			if err != nil {
				t.Fatal(err)
			}
			if got.Username != "puller" || got.Password.Reveal() != "from-barbican" || got.CacheDuration == nil || *got.CacheDuration != 10*time.Minute {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A secret is rotated by storing a new one of the same name.
func TestNewestSecretOfAName(t *testing.T) {
	sim := ossim.ForTest(t)
	for _, password := range []string{"first", "second"} {
		store(t, sim, textSecret("registry", strings.Replace(dockerConfigJSON, "from-barbican", password, 1)))
		waitForNextSecond(t) // Barbican tells the time of creation in seconds
	}
	p := provider(t, sim, "[Registry \"r.example:5000\"]\ntype = barbican\nsecret = registry\n")
	got, err := ask(t, p, "r.example:5000/app")
	if err != nil || got.Password.Reveal() != "second" {
		t.Errorf("got %q, %v, want the newest secret's", got.Password.Reveal(), err)
	}
}

func waitForNextSecond(t *testing.T) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 10*time.Millisecond))):
	}
}

func TestBarbicanErrors(t *testing.T) {
	sim := ossim.ForTest(t)
	store(t, sim, textSecret("registry", dockerConfigJSON))
	store(t, sim, textSecret("nonsense", "s3cret-payload"))
	for name, tt := range map[string]struct {
		secret, image string
		fault         *ossim.Fault
		want          string
	}{
		"no such name":   {secret: "registri", want: `no secret named "registri" in this project; store it`},
		"no id":          {secret: "registry-00000000-0000-0000-00000000", want: "in this project; store it"},
		"no id either":   {secret: "00000000-0000-0000-0000-00000000000x", want: "in this project; store it"},
		"no such id":     {secret: "00000000-0000-0000-0000-000000000000", want: "there is none, or it has no payload"},
		"no reference":   {secret: "https://barbican/v1/secrets/", want: "does not end with the id"},
		"no docker file": {secret: "nonsense", want: "no dockerconfigjson"},
		"no entry":       {secret: "registry", image: "r.example/app", want: "no entry for r.example/app"},
		"denied":         {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Status: 403}, want: "give the user the role creator"},
		"outage":         {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Status: 503, Body: "try\nlater"}, want: "Barbican answers: try later"},
		"throttled":      {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Status: 429}, want: "slow down"},
		"cut":            {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Path: "/secrets/*/payload", Truncate: true}, want: "cannot be read"},
		"reset":          {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Reset: true}, want: "Barbican at 127.0.0.1:"},
		"token refused":  {secret: "registry", fault: &ossim.Fault{Service: "key-manager", Status: 401}, want: "access is denied"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.fault != nil {
				defer sim.AddFault(*tt.fault)()
			}
			image := tt.image
			if image == "" {
				image = "r.example:5000/app"
			}
			p := provider(t, sim, fmt.Sprintf("[Registry \"r.example:5000\"]\ntype=barbican\nsecret=%q\n[Registry \"r.example\"]\ntype=barbican\nsecret=%q\n", tt.secret, tt.secret))
			_, err := ask(t, p, image)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "from-barbican")) {
				t.Errorf("the error is not one line without secrets: %v", err)
			}
		})
	}
}

func TestKeppel(t *testing.T) {
	const registry = "[Registry \"keppel.example.com\"]\ntype = keppel\n"
	const login = "[Global]\nauth-url = http://127.0.0.1:1/v3\n"
	for name, tt := range map[string]struct{ conf, user, password, want string }{
		"application credential": {conf: login + "application-credential-id = 1a\napplication-credential-secret = s3cret\n", user: "applicationcredential-1a", password: "s3cret"},
		"password":               {conf: login + "username=u\nuser-domain-name=d\npassword=s3cret\ntenant-name=p\ntenant-domain-name=e\n", user: "u@d/p@e", password: "s3cret"},
		"at sign in a name":      {conf: login + "username=u@x\nuser-domain-name=d\npassword=s3cret\ntenant-name=p\ntenant-domain-name=e\n", want: `the name "u@x" has an @ or /`},
		"token":                  {conf: login + "token=s3cret\n", want: "use an application credential"},
		"names needed, outage":   {conf: login + "user-id=1\npassword=s3cret\ntenant-id=2\n", want: "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, err := New(Config{CloudConfig: confFile(t, tt.conf+registry)}, credentialprovider.Options{UserAgent: "test", Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			got, err := ask(t, p, "keppel.example.com/account/repo")
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || got.Username != tt.user || got.Password.Reveal() != tt.password || got.ImageOnly {
				t.Errorf("got %+v, %v, want %s", got, err, tt.user)
			}
		})
	}
}

// The node's login goes to the registries that cloud.conf names and to no others.
func TestOnlyConfiguredRegistries(t *testing.T) {
	sim := ossim.ForTest(t)
	p := provider(t, sim, "[Registry \"keppel.example.com\"]\ntype = keppel\n")
	set := credentialprovider.Set{Kinds: []credentialprovider.Kind{{Name: "openstack", Open: func() (credentialprovider.Provider, error) { return p, nil }}}}
	for _, image := range []string{"evil.example.com/a", "keppel.example.com:5000/a", "keppel.example.com.evil.example/a", "xkeppel.example.com/a", "nginx"} {
		if got, err := set.Answer(t.Context(), &credentialprovider.Request{APIVersion: "v1", Image: image}); err == nil {
			t.Errorf("%s: got %+v, want an error", image, got)
		}
	}
	if n := len(sim.Requests()); n != 0 {
		t.Errorf("%d requests to the cloud for images that are refused", n)
	}
}

func TestConfigMistakes(t *testing.T) {
	const login = "[Global]\nauth-url = http://127.0.0.1:1/v3\nuser-id = u\npassword = s3cret\n"
	for name, tt := range map[string]struct {
		conf string
		want []string
	}{
		"all at once": {login + "[Registry \"a\"]\n[Registry \"b\"]\ntype=kepel\n[Registry \"c\"]\ntype=barbican\ncache-duration=-1s\n[Registry \"d/e\"]\ntype=keppel\nsecret=x\n[Registry \"f:80\"]\ntype=keppel\n[Registry \"F:80\"]\ntype=keppel\n",
			[]string{`[Registry "a"] type: not set`, `[Registry "b"] type: "kepel" is not known`, `[Registry "c"] secret: not set`, `[Registry "c"] cache-duration: has to be 0 or longer`,
				`[Registry "d/e"] registry "d/e" is no valid host`, `[Registry "d/e"] secret: a keppel registry takes the login`, `[Registry "F:80"] and [Registry "f:80"] are the same registry`}},
		"duration":  {login + "[Registry \"a\"]\ntype=keppel\ncache-duration=10\n", []string{`line 7: [Registry "a"] cache-duration: "10" is no duration`}},
		"syntax":    {login + "[Registry a]\n", []string{"line 5: expected ']'"}},
		"login":     {"[Registry \"a\"]\ntype=keppel\n", []string{"auth-url is not set", "no credentials"}},
		"huge file": {strings.Repeat("# x\n", 1<<18) + login, []string{"longer than 1024 KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := New(Config{CloudConfig: confFile(t, tt.conf)}, credentialprovider.Options{UserAgent: "test", Timeout: time.Second})
			if err == nil {
				t.Fatal("New accepts it")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	pods := Config{Identity: credentialprovider.ServiceAccountIdentity, CloudConfig: confFile(t, "[Global]\nauth-url=https://keystone.example\nidentity-provider=cluster\n[Registry \"a\"]\ntype=keppel\n[Registry \"b\"]\ntype=barbican\nsecret=s\n")}
	if p, _, err := New(pods, credentialprovider.Options{}); err != nil || !slices.Equal(p.MatchImages(), []string{"b"}) {
		t.Errorf("as service accounts, Keppel is not among what the kubelet is to ask for: %v, %v", p.MatchImages(), err)
	}
	pods.CloudConfig = confFile(t, login)
	if _, _, err := New(pods, credentialprovider.Options{}); err == nil || !strings.Contains(err.Error(), "identity-provider is not set") {
		t.Errorf("as service accounts, without an identity provider: %v", err)
	}
	if _, _, err := New(Config{CloudConfig: "/nowhere/cloud.conf"}, credentialprovider.Options{}); err == nil || !strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("a missing file: %v", err)
	}
	_, warnings, err := New(Config{CloudConfig: confFile(t, login+"[Registry \"a\"]\ntype=keppel\ncache-durations=1m\n[LoadBalancer]\nsubnet-id=x\n")}, credentialprovider.Options{UserAgent: "test", Timeout: time.Second})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "did you mean cache-duration?") {
		t.Errorf("warnings %q, %v, want one about cache-durations and none about [LoadBalancer]", warnings, err)
	}
}
