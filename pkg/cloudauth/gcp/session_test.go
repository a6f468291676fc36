package gcp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node       = "node@project.iam.gserviceaccount.com"
	pull       = "pull@project.iam.gserviceaccount.com"
	pool       = "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
	podSubject = "system:serviceaccount:team:app"
)

// world is a simulated Google Cloud and an environment without credentials.
type world struct {
	*gcpsim.Sim
	dir      string
	audience string
	clock    time.Time // the Session's; real if zero
	mu       sync.Mutex
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := gcpsim.Start(gcpsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{Sim: sim, dir: t.TempDir()}
	for _, name := range []string{fileVariable, gcloudVariable} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", w.dir)
	t.Setenv(hostVariable, sim.MetadataHost())
	sim.AddAccount(node)
	sim.AddAccount(pull)
	provider := gcpsim.Provider{Name: pool}
	w.audience = sim.AddProvider(provider)
	sim.AllowActAs(pull, provider.Principal(podSubject))
	sim.SetInstance(node, gcpsim.ScopePlatform)
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clock.IsZero() {
		return time.Now()
	}
	return w.clock
}

func (w *world) pass(d time.Duration) {
	now := w.now().Add(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = now
}

// session is one that reaches Google's names through the simulator.
func (w *world) session(t *testing.T, cfg Config) (*Session, error) {
	t.Helper()
	if cfg.Scopes == nil {
		cfg.Scopes = []string{gcpsim.ScopeStorage}
	}
	s, err := New(cfg, Options{UserAgent: "test/1", RequestTimeout: 10 * time.Second, backoff: time.Millisecond, now: w.now, remote: func(transport *http.Transport) {
		if err := w.Intercept(transport); err != nil {
			t.Fatal(err)
		}
	}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.client.CloseIdleConnections)
	return s, nil
}

func (w *world) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *world) key(t *testing.T, email string) []byte {
	t.Helper()
	key, err := w.AddKey(email)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (w *world) federation(t *testing.T) *Federation {
	t.Helper()
	token, err := w.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: "app", Audience: []string{w.audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return &Federation{Token: cloudauth.NewSecret(token), Audience: w.audience, Subject: "service account team/app"}
}

// who is whose token a session gives.
func (w *world) who(t *testing.T, s *Session) string {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member, _ := w.TokenInfo(got.Value.Reveal())
	return member
}

// The first source that is there is used, and no other.
func TestChain(t *testing.T) {
	w := newWorld(t)
	instance := gcpsim.Account(node)
	expect := func(cfg Config, want string) {
		t.Helper()
		s, err := w.session(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.who(t, s); got != want {
			t.Errorf("%+v: %s, want %s", cfg, got, want)
		}
	}
	expect(Config{}, instance)
	w.write(t, ".config/gcloud/"+gcloudFile, w.key(t, pull))
	expect(Config{}, gcpsim.Account(pull))
	t.Setenv(fileVariable, w.write(t, "env.json", w.key(t, node)))
	expect(Config{}, gcpsim.Account(node))
	file := w.write(t, "configured.json", w.key(t, pull))
	expect(Config{CredentialsFile: file}, gcpsim.Account(pull))
	provider := gcpsim.Provider{Name: pool}
	expect(Config{Federation: w.federation(t)}, provider.Principal(podSubject))
	expect(Config{Federation: w.federation(t), Impersonate: pull}, gcpsim.Account(pull))
	expect(Config{Account: node}, instance)

	// One that is there but broken is an error.
	for name, content := range map[string]string{"broken": "{", "empty": "", "another": `{"type":"gdch_service_account"}`, "list": "[]"} {
		t.Setenv(fileVariable, w.write(t, "broken.json", []byte(content)))
		var own *cloudauth.Error
		if _, err := w.session(t, Config{}); !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !strings.Contains(err.Error(), "broken.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv(fileVariable, "")
	t.Setenv(gcloudVariable, w.write(t, "file", nil)) // a file where the folder has to be
	if _, err := w.session(t, Config{}); err == nil || !strings.Contains(err.Error(), "gcloud's credentials") {
		t.Errorf("a folder that cannot be looked into: %v", err)
	}
}

func (w *world) calls() int { return len(w.Requests()) }

// A token is kept and replaced in time, by one request at a time.
func TestTokenIsKept(t *testing.T) {
	w := newWorld(t)
	s, err := w.session(t, Config{CredentialsFile: w.write(t, "key.json", w.key(t, node))})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.calls(); n != 1 {
		t.Errorf("%d requests for the first token", n)
	}
	w.pass(50 * time.Minute)
	first, err := s.Token(t.Context())
	if err != nil || w.calls() != 1 {
		t.Errorf("after 50 minutes: %d requests, %v", w.calls(), err)
	}
	// Near its end it is replaced; while that fails it is still given.
	remove := w.AddFault(gcpsim.Fault{Service: "oauth2", Status: 400, Code: "invalid_grant"})
	w.pass(7 * time.Minute)
	if again, err := s.Token(t.Context()); err != nil || !again.Value.Equal(first.Value) {
		t.Errorf("after 57 minutes, with a fault: %v", err)
	}
	eventually.True(t, "a new one is asked for", func() bool { stays, _ := s.tokens.Failure(); return stays && w.calls() == 2 })
	w.pass(4 * time.Minute)
	if _, err := s.Token(t.Context()); err == nil {
		t.Error("an expired token is given")
	}
	remove()
	w.pass(time.Minute)
	// Google's clock is the real one: the assertion is of the future.
	if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "reasonable timeframe") || !strings.Contains(err.Error(), "the node's clock is wrong") {
		t.Errorf("a clock that is an hour fast: %v", err)
	}
	w.pass(-62 * time.Minute)
	if _, err := s.Token(t.Context()); err != nil {
		t.Errorf("the clock is right again: %v", err)
	}
}

// Who waits for a token of somebody else's request can give up.
func TestWaitingEnds(t *testing.T) {
	w := newWorld(t)
	s, err := w.session(t, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.AddFault(gcpsim.Fault{Service: "metadata", Hang: true})
	first, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := s.Token(first); done <- err }()
	for w.calls() == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("no request")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Token(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("the second: %v", err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the first: %v", err)
	}
}

// A hundred callers of a server that hangs wait together, for as long as one request; with a token that is still good
// they do not wait at all.
func TestHundredCallersOfAHangingServer(t *testing.T) {
	w := newWorld(t)
	s, err := New(Config{Scopes: []string{gcpsim.ScopeStorage}}, Options{RequestTimeout: 300 * time.Millisecond, now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	hundred := func(want bool) {
		t.Helper()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := s.Token(t.Context()); (err == nil) != want {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
	}
	remove := w.AddFault(gcpsim.Fault{Service: "metadata", Hang: true})
	hundred(false)
	if n := w.calls(); n > 2 { // who comes after the first failure asks once more
		t.Errorf("%d requests: they wait one after the other", n)
	}
	remove()
	w.pass(time.Minute)
	if _, err := s.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.AddFault(gcpsim.Fault{Service: "metadata", Hang: true})
	w.pass(57 * time.Minute)
	before := w.calls()
	hundred(true)
	eventually.True(t, "a new one is asked for", func() bool { return w.calls() > before })
	if n := w.calls() - before; n != 1 {
		t.Errorf("%d requests for a token that is still good", n)
	}
}

// A credentials file that changes is taken over; while it is broken, the token before stays, and
// no other source is used.
func TestFileChanges(t *testing.T) {
	w := newWorld(t)
	file := w.write(t, "key.json", w.key(t, node))
	s, err := w.session(t, Config{CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		content []byte
		want    string
	}{{nil, gcpsim.Account(node)}, {[]byte("{"), gcpsim.Account(node)}, {w.key(t, pull), gcpsim.Account(pull)}} {
		if step.content != nil {
			w.write(t, "key.json", step.content)
			w.pass(11 * time.Second)
		}
		if got := w.who(t, s); got != step.want {
			t.Errorf("a token of %s, want %s", got, step.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Hour)
	if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "key.json") {
		t.Errorf("the file is gone: %v", err)
	}
}

// What files of workload identity federation and of impersonation say beside the usual.
func TestFederationFiles(t *testing.T) {
	w := newWorld(t)
	const between = "between@project.iam.gserviceaccount.com"
	const far = "far@project.iam.gserviceaccount.com"
	w.AddAccount(between)
	w.AddAccount(far)
	provider := gcpsim.Provider{Name: strings.Replace(pool, "cluster", "client", 1), Client: "the client", ClientSecret: "s3cret:&"}
	audience := w.AddProvider(provider)
	w.AllowActAs(between, provider.Principal(podSubject))
	w.AllowActAs(far, gcpsim.Account(between))
	token, err := w.ServiceAccountToken(cloudsim.TokenClaims{Namespace: "team", Name: "app", Audience: []string{audience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := w.write(t, "token", []byte(token))
	as := func(email string) string {
		return `"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/` + email + `:generateAccessToken"`
	}
	external := `{"type":"external_account","audience":"` + audience + `","subject_token_type":"urn:ietf:params:oauth:token-type:id_token","client_id":"the client","client_secret":"s3cret:&","credential_source":{"file":"` + file + `"}`
	for name, tt := range map[string]struct {
		content, who string
		life         time.Duration
		err          string
	}{
		"a client":     {content: external + "}", who: provider.Principal(podSubject), life: time.Hour},
		"no client":    {content: strings.Replace(external, "the client", "another", 1) + "}", err: "401 invalid_client: The OAuth client was not found."},
		"a lifetime":   {content: external + "," + as(between) + `,"service_account_impersonation":{"token_lifetime_seconds":600}}`, who: gcpsim.Account(between), life: 10 * time.Minute},
		"too long":     {content: external + "," + as(between) + `,"service_account_impersonation":{"token_lifetime_seconds":7200}}`, err: "400 INVALID_ARGUMENT: The lifetime exceeds the maximum allowed.); check the service account, and the lifetime"},
		"no lifetime":  {content: external + "," + as(between) + `,"service_account_impersonation":{"token_lifetime_seconds":-1}}`, err: "it has to be from 60 to 43200"},
		"delegates":    {content: `{"type":"impersonated_service_account",` + as(far) + `,"delegates":["` + between + `"],"source_credentials":` + external + "}}", who: gcpsim.Account(far), life: time.Hour},
		"no delegates": {content: `{"type":"impersonated_service_account",` + as(far) + `,"source_credentials":` + external + "}}", err: "403 PERMISSION_DENIED"},
		"bad delegate": {content: `{"type":"impersonated_service_account",` + as(pull) + `,"delegates":["a/b"],"source_credentials":` + external + "}}", err: `delegates: "a/b" is no email`},
		"nested":       {content: `{"type":"impersonated_service_account",` + as(pull) + `,"source_credentials":{"type":"impersonated_service_account"}}`, err: "source_credentials are missing, or are of the same type"},
		"workforce":    {content: external + `,"workforce_pool_user_project":"1"}`, err: "it is a workforce pool's"},
		"other action": {content: external + "," + strings.Replace(as(pull), "generateAccessToken", "signBlob", 1) + "}", err: "is no URL of generateAccessToken"},
		"two sources":  {content: strings.Replace(external, `{"file"`, `{"url":"https://x.example","file"`, 1) + "}", err: "one of file and url has to be there"},
		"host header":  {content: strings.Replace(external, `"file":"`+file, `"headers":{"host":"x"},"url":"https://x.example`, 1) + "}", err: "headers: Host is not supported"},
		"format":       {content: strings.Replace(external, `{"file"`, `{"format":{"type":"yaml"},"file"`, 1) + "}", err: `type "yaml" is not known`},
		"no field":     {content: strings.Replace(external, `{"file"`, `{"format":{"type":"json"},"file"`, 1) + "}", err: "subject_token_field_name is missing"},
		"not JSON":     {content: strings.Replace(external, `{"file"`, `{"format":{"type":"json","subject_token_field_name":"a"},"file"`, 1) + "}", err: "holds no subject token; check credential_source.format"},
	} {
		s, err := w.session(t, Config{CredentialsFile: w.write(t, "file.json", []byte(tt.content))})
		var got Token
		if err == nil {
			got, err = s.Token(t.Context())
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if member, _ := w.TokenInfo(got.Value.Reveal()); member != tt.who || time.Until(got.Expires) > tt.life || time.Until(got.Expires) < tt.life-time.Minute {
			t.Errorf("%s: a token of %q until %s", name, member, got.Expires)
		}
	}
}

// No error shows anything that is secret, whatever the services say.
func TestErrorsShowNoSecrets(t *testing.T) {
	w := newWorld(t)
	federation := w.federation(t)
	user := []byte(`{"type":"authorized_user","client_id":"i","client_secret":"s3cret-client","refresh_token":"s3cret-refresh"}`)
	for name, tt := range map[string]struct {
		cfg     Config
		service string
		secrets []string
	}{
		"STS":  {Config{Federation: federation}, "sts", []string{federation.Token.Reveal()}},
		"user": {Config{CredentialsFile: w.write(t, "user.json", user)}, "oauth2", []string{"s3cret-client", "s3cret-refresh"}},
	} {
		for _, status := range []int{400, 429, 500} {
			remove := w.AddFault(gcpsim.Fault{Service: tt.service, Status: status, Code: "invalid_grant", Message: "you sent " + strings.Join(tt.secrets, " and ") + "\nor not"})
			s, err := w.session(t, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Token(t.Context())
			var own *cloudauth.Error
			if !errors.As(err, &own) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "[redacted]") {
				t.Errorf("%s %d: %v", name, status, err)
			}
			for _, secret := range tt.secrets {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%s %d: the error shows the secret", name, status)
				}
			}
			if want := map[int]cloudauth.Reason{400: cloudauth.Rejected, 429: cloudauth.Throttled, 500: cloudauth.Failed}[status]; own != nil && own.Reason != want {
				t.Errorf("%s %d: reason %d, want %d", name, status, own.Reason, want)
			}
			remove()
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	w := newWorld(t)
	good := []string{gcpsim.ScopeStorage}
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no scope":       {Config{Scopes: []string{}}, "no scope is asked for"},
		"scope":          {Config{Scopes: []string{"devstorage.read_only"}}, `scope "devstorage.read_only" is none of Google's`},
		"account":        {Config{Scopes: good, Account: "../x"}, `"../x" is no service account of an instance`},
		"dots":           {Config{Scopes: good, Account: ".."}, `".." is no service account of an instance`},
		"two sources":    {Config{Scopes: good, Account: "default", CredentialsFile: "x"}, "remove one"},
		"email":          {Config{Scopes: good, Impersonate: "a@evil.example"}, "is no email of a Google service account"},
		"universe":       {Config{Scopes: good, UniverseDomain: "x/y"}, `universe domain "x/y" is no domain`},
		"no token":       {Config{Scopes: good, Federation: &Federation{Audience: w.audience}}, "the token to be exchanged is empty"},
		"audience":       {Config{Scopes: good, Federation: &Federation{Token: cloudauth.NewSecret("s3cret"), Audience: "x"}}, `"x" is no provider of a workload identity pool`},
		"other universe": {Config{Scopes: good, UniverseDomain: "other.example", Federation: &Federation{Token: cloudauth.NewSecret("s3cret"), Audience: w.audience}}, "is no provider of a workload identity pool"},
		"key of another": {Config{Scopes: good, UniverseDomain: "other.example", CredentialsFile: w.write(t, "k.json", []byte(`{"type":"service_account","universe_domain":"other.example"}`))}, "keys of service accounts are not supported in the universe other.example"},
	} {
		_, err := w.session(t, tt.cfg)
		var own *cloudauth.Error
		if !errors.As(err, &own) || own.Reason != cloudauth.Misconfigured || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
