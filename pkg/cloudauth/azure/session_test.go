package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant    = "aaaaaaaa-0000-4000-8000-000000000001"
	appSecret = "s3cret~of+the/app"
	registryA = "https://containerregistry.azure.net"
	arm       = "https://management.azure.com"
)

// world is a simulated Azure, with a machine that has a system-assigned identity, and an environment of this
// process that knows it alone.
type world struct {
	*azuresim.Sim
	dir string
	app azuresim.Identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sim, err := azuresim.Start(azuresim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"} {
		t.Setenv(name, "")
	}
	t.Setenv(metadataVariable, sim.URL())
	w := &world{Sim: sim, dir: t.TempDir()}
	sim.SetSystemIdentity(azuresim.Application{})
	w.app = sim.AddApplication(azuresim.Application{Tenant: tenant, Secrets: map[string]time.Time{appSecret: {}, "s3cret-two": {}}, Subjects: []string{"system:serviceaccount:kube-system:node"}})
	return w
}

func (w *world) file(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// open makes a Session whose requests go to the simulator.
func (w *world) open(t *testing.T, cfg Config, o Options) *Session {
	t.Helper()
	if o.backoff == 0 {
		o.backoff = time.Millisecond
	}
	o.remote = func(transport *http.Transport) {
		if err := w.Intercept(transport); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.wire.CloseIdleConnections)
	return s
}

func (w *world) secret(t *testing.T) Config {
	t.Helper()
	return Config{TenantID: tenant, ClientID: w.app.ClientID, ClientSecretFile: w.file(t, "secret", appSecret)}
}

// A token is kept until shortly before its end, one for each audience, and is got once for all who ask.
func TestTokensAreKept(t *testing.T) {
	w := newWorld(t)
	var offset atomic.Int64
	s := w.open(t, w.secret(t), Options{now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	if n := len(w.Requests()); n != 0 {
		t.Fatalf("New makes %d requests", n)
	}
	expect := func(requests int) Token {
		t.Helper()
		w.ResetRequests()
		var all sync.WaitGroup
		tokens := make([]Token, 20)
		for i := range tokens {
			all.Go(func() {
				var err error
				if tokens[i], err = s.Token(t.Context(), registryA); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(w.Requests()); n != requests {
			t.Errorf("%d requests, want %d", n, requests)
		}
		for _, token := range tokens {
			if token.Value.IsEmpty() || requests == 0 && !token.Value.Equal(tokens[0].Value) {
				t.Fatal("not all get the token at hand")
			}
		}
		return tokens[0]
	}
	expect(1)
	first := expect(0)
	if left := time.Until(first.Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the token lives %s more", left)
	}
	if other, err := s.Token(t.Context(), arm); err != nil || other.Value.Equal(first.Value) {
		t.Errorf("another audience gets the same token, %v", err)
	}
	offset.Store(int64(56 * time.Minute)) // less than five minutes are left
	w.ResetRequests()
	if token, err := s.Token(t.Context(), registryA); err != nil || !token.Value.Equal(first.Value) {
		t.Errorf("the old one is not given meanwhile: %v", err)
	}
	eventually.True(t, "a new one is there", func() bool {
		token, err := s.Token(t.Context(), registryA)
		return err == nil && !token.Value.Equal(first.Value)
	})
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests for a new one", n)
	}
	if second := expect(0); second.Value.Equal(first.Value) {
		t.Error("the token is not replaced before its end")
	}
	// While a new one is not to be had, the one at hand is used to its end, and not asked for every time.
	remove := w.AddFault(azuresim.Fault{Service: "entra", Status: http.StatusForbidden, Code: "53003"})
	offset.Add(int64(56 * time.Minute))
	if _, err := s.Token(t.Context(), registryA); err != nil {
		t.Errorf("a token that is still good is given up: %v", err)
	}
	eventually.True(t, "a new one is asked for", func() bool { stays, _ := s.cache(Wanted{Audience: registryA}).Failure(); return stays })
	w.ResetRequests()
	if _, err := s.Token(t.Context(), registryA); err != nil || len(w.Requests()) != 0 {
		t.Errorf("%d requests, %v", len(w.Requests()), err)
	}
	offset.Add(int64(time.Hour))
	if _, err := s.Token(t.Context(), registryA); err == nil || !strings.Contains(err.Error(), "conditional access") {
		t.Errorf("a token that has expired is used: %v", err)
	}
	remove()
	offset.Add(int64(time.Minute))
	expect(1)
}

// A hundred callers of a server that hangs wait together, for as long as one request; with a token that is still good
// they do not wait at all.
func TestHundredCallersOfAHangingServer(t *testing.T) {
	w := newWorld(t)
	var offset atomic.Int64
	s := w.open(t, w.secret(t), Options{RequestTimeout: 300 * time.Millisecond, now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	hundred := func(want bool) {
		t.Helper()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := s.Token(t.Context(), registryA); (err == nil) != want {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
	}
	remove := w.AddFault(azuresim.Fault{Service: "entra", Hang: true})
	hundred(false)
	if n := len(w.Requests()); n > 2 { // who comes after the first failure asks once more
		t.Errorf("%d requests: they wait one after the other", n)
	}
	remove()
	offset.Add(int64(time.Minute))
	if _, err := s.Token(t.Context(), registryA); err != nil {
		t.Fatal(err)
	}
	w.AddFault(azuresim.Fault{Service: "entra", Hang: true})
	offset.Add(int64(56 * time.Minute))
	w.ResetRequests()
	hundred(true)
	eventually.True(t, "a new one is asked for", func() bool { return len(w.Requests()) > 0 })
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests for a token that is still good", n)
	}
}

// Who waits for another's request is not ended by that one's end.
func TestWaitingForAToken(t *testing.T) {
	w := newWorld(t)
	s := w.open(t, w.secret(t), Options{})
	w.AddFault(azuresim.Fault{Service: "entra", Latency: time.Second})
	first, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Token(first, registryA); err == nil || !strings.Contains(err.Error(), "canceled") {
			t.Errorf("the one that gives up: %v", err)
		}
	})
	eventually.True(t, "somebody asks", func() bool { return len(w.Requests()) > 0 })
	all.Go(func() {
		if _, err := s.Token(t.Context(), registryA); err != nil {
			t.Errorf("the one that waits: %v", err)
		}
	})
	short, done := context.WithCancel(t.Context())
	done()
	if _, err := s.Token(short, registryA); err == nil || !strings.Contains(err.Error(), "waiting for a token of application") {
		t.Errorf("a waiter that leaves: %v", err)
	}
	cancel()
	all.Wait()
}

// Secrets in files are taken over when they are replaced; a broken azure.json does not make the machine's identity the
// program's.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	clock := func() time.Time { return now }
	s := w.open(t, w.secret(t), Options{now: clock})
	if _, err := s.Token(t.Context(), registryA); err != nil {
		t.Fatal(err)
	}
	next := func(s *Session) error {
		now = now.Add(2 * time.Hour)
		_, err := s.Token(t.Context(), registryA)
		return err
	}
	w.file(t, "secret", "s3cret-two")
	if err := next(s); err != nil {
		t.Errorf("the new secret is not taken over: %v", err)
	}
	w.file(t, "secret", "")
	if err := next(s); err == nil || !strings.Contains(err.Error(), "secret is empty") {
		t.Errorf("an empty file: %v", err)
	}
	good := fmt.Sprintf(`{"tenantId":%q,"aadClientId":%q,"aadClientSecret":%q}`, tenant, w.app.ClientID, appSecret)
	path := w.file(t, "azure.json", good)
	s = w.open(t, Config{CloudConfig: path}, Options{now: clock})
	for content, want := range map[string]string{
		good: "", strings.Replace(good, appSecret, "s3cret-two", 1): "",
		good[:40]: "no valid JSON", `{"useManagedIdentityExtension":true}`: "names another identity than before",
	} {
		w.file(t, "azure.json", content)
		if err := next(s); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s…: %v, want %q", content, err, want)
		}
	}
	for _, r := range w.Requests() {
		if r.Service == "imds" {
			t.Fatal("the machine's identity is asked for")
		}
	}
}

func TestFaults(t *testing.T) {
	html, huge := "<html>s3cret</html>", strings.Repeat("x", 3<<20)
	bare := `{"access_token":"","expires_in":3600}`
	for name, tt := range map[string]struct {
		fault  azuresim.Fault
		imds   bool
		reason cloudauth.Reason // -1 is success
		want   string
		tries  int
	}{
		"throttled":             {azuresim.Fault{Status: 429, Code: "50196", Message: "slow"}, false, cloudauth.Throttled, "asks to slow down", 3},
		"broken":                {azuresim.Fault{Status: 503, Code: "90033", Message: "A transient error"}, false, cloudauth.Failed, "does not work (503", 3},
		"once broken":           {azuresim.Fault{Times: 1, Status: 503, Code: "90033"}, false, -1, "", 2},
		"once cut":              {azuresim.Fault{Times: 1, Reset: true}, false, -1, "", 2},
		"refused":               {azuresim.Fault{Status: 401, Code: "7000112", Message: "disabled s3cret~of+the/app"}, false, cloudauth.Rejected, "the application is disabled; enable it", 1},
		"unknown code":          {azuresim.Fault{Status: 400, Code: "9002313", Message: "x"}, false, cloudauth.Rejected, "see the Microsoft documentation of AADSTS9002313", 1},
		"no JSON":               {azuresim.Fault{Body: &html}, false, cloudauth.Failed, "answers without a usable token", 1},
		"no JSON with a 403":    {azuresim.Fault{Status: 403, Code: "1", Body: &html}, false, cloudauth.Rejected, "(403 Forbidden); check tenant, client id and cloud", 1},
		"huge":                  {azuresim.Fault{Body: &huge}, false, cloudauth.Failed, "answers with more than 1024 KiB", 1},
		"empty":                 {azuresim.Fault{Body: &bare}, false, cloudauth.Failed, "without a usable token", 1},
		"hangs":                 {azuresim.Fault{Hang: true}, false, cloudauth.Unreachable, "does not answer in time", 1},
		"redirects":             {azuresim.Fault{Status: 307, Code: "1", Header: http.Header{"Location": {"https://evil.example/"}}}, false, cloudauth.Failed, "redirects to another address (307), which is not followed", 1},
		"metadata throttled":    {azuresim.Fault{Status: 429, Code: "x"}, true, cloudauth.Throttled, "asks to slow down", 5},
		"metadata updates":      {azuresim.Fault{Times: 2, Status: 410, Code: "x"}, true, -1, "", 3},
		"metadata not found":    {azuresim.Fault{Status: 404, Code: "x"}, true, cloudauth.NoCredentials, "is this a machine of Azure?", 5},
		"metadata is not there": {azuresim.Fault{Reset: true}, true, cloudauth.NoCredentials, "there are no other Azure credentials, neither in the configuration", 5},
		"metadata no JSON":      {azuresim.Fault{Body: &html}, true, cloudauth.Failed, "answers without a usable token", 1},
		"metadata hangs":        {azuresim.Fault{Hang: true}, true, cloudauth.NoCredentials, "does not answer in time", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cfg := Config{}
			if !tt.imds {
				cfg = w.secret(t)
			}
			w.AddFault(tt.fault)
			timeout := time.Minute
			if tt.fault.Hang {
				timeout = 300 * time.Millisecond
			}
			s := w.open(t, cfg, Options{RequestTimeout: timeout})
			_, err := s.Token(t.Context(), registryA)
			if n := len(w.Requests()); n != tt.tries {
				t.Errorf("%d requests, want %d", n, tt.tries)
			}
			if hosts := w.Refused(); len(hosts) != 0 {
				t.Errorf("it speaks to %v", hosts)
			}
			if tt.reason == -1 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var own *cloudauth.Error
			if !errors.As(err, &own) || own.Reason != tt.reason || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (%+v), want %q", err, own, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.ContainsAny(err.Error(), "\r\n") || len(err.Error()) > 700) {
				t.Errorf("the error is no short line without secrets: %v", err)
			}
		})
	}
}

// A service that says how long it wants to be left alone is not asked before, and not waited for when there
// is no time.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	w.AddFault(azuresim.Fault{Service: "entra", Status: 429, Code: "50196", Header: http.Header{"Retry-After": {"3600"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	if _, err := w.open(t, w.secret(t), Options{}).Token(ctx, registryA); err == nil || !strings.Contains(err.Error(), "asks to slow down") {
		t.Errorf("got %v", err)
	}
	if n := len(w.Requests()); n != 1 || time.Since(start) > 9*time.Minute {
		t.Errorf("%d requests in %s, want one", n, time.Since(start))
	}
}

// The metadata service is only on or next to this machine.
func TestDefectForeignMetadataService(t *testing.T) {
	for _, host := range []string{"http://10.0.0.1", "http://metadata.example", "https://169.254.169.254", "http://169.254.169.254/x", "http://169.254.169.254.evil.example", "http://user@169.254.169.254"} {
		t.Setenv(metadataVariable, host)
		if _, err := New(Config{}, Options{}); err == nil || !strings.Contains(err.Error(), "is no address of a metadata service") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// The peer's reader of azure.json returns neither an identity nor an error where there is none.
func TestDefectNoIdentityAndNoError(t *testing.T) {
	w := newWorld(t)
	for _, content := range []string{`{}`, `{"tenantId":"` + tenant + `","aadClientId":"` + tenant + `"}`, `{"useManagedIdentityExtension":false,"userAssignedIdentityID":"` + tenant + `"}`} {
		if _, err := New(Config{CloudConfig: w.file(t, "azure.json", content)}, Options{}); err == nil || !strings.Contains(err.Error(), "it names no identity; set useManagedIdentityExtension") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// Nothing is sent unencrypted, whatever is configured.
func TestDefectTokenSentUnencrypted(t *testing.T) {
	w := newWorld(t)
	cfg := w.secret(t)
	cfg.AuthorityHost = "http://login.example"
	if _, err := New(cfg, Options{}); err == nil || !strings.Contains(err.Error(), "is not https: credentials are not sent unencrypted") {
		t.Errorf("got %v", err)
	}
	if _, err := NewClient(Options{}).Do(t.Context(), Request{Where: "x", URL: "http://registry.example/v2/"}); err == nil || !strings.Contains(err.Error(), "credentials are not sent unencrypted to registry.example") {
		t.Errorf("got %v", err)
	}
}

// The identity that is asked for is the one that is used, also where the metadata service thinks otherwise.
func TestDefectTokenOfAnotherIdentity(t *testing.T) {
	w := newWorld(t)
	user := w.AddManagedIdentity(azuresim.Application{Name: "nodes"})
	s := w.open(t, Config{ClientID: user.ClientID}, Options{})
	body := `{"access_token":"eyJ","expires_in":"3600","client_id":"` + w.app.ClientID + `"}`
	remove := w.AddFault(azuresim.Fault{Service: "imds", Body: &body})
	if _, err := s.Token(t.Context(), registryA); err == nil || !strings.Contains(err.Error(), "answers with a token of "+w.app.ClientID+" when asked for one of "+user.ClientID) {
		t.Errorf("got %v", err)
	}
	remove()
	if _, err := s.Token(t.Context(), registryA); err != nil {
		t.Error(err)
	}
}

// A token that the caller gives is used in place of everything else.
func TestFederatedTokenAlone(t *testing.T) {
	w := newWorld(t)
	token, err := w.ServiceAccountToken(azuresim.TokenClaims{Namespace: "kube-system", Name: "node", Audience: []string{Public.ExchangeAudience}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_CLIENT_ID", "bbbbbbbb-0000-4000-8000-000000000001")
	t.Setenv("AZURE_CLIENT_SECRET", "s3cret")
	t.Setenv("AZURE_TENANT_ID", tenant)
	s := w.open(t, Config{ClientID: w.app.ClientID, FederatedToken: cloudauth.NewSecret(token)}, Options{})
	if _, err := s.Token(t.Context(), registryA); err != nil {
		t.Error(err)
	}
	if who := s.Who(); who != "application "+w.app.ClientID+" in tenant "+tenant+" (federated token)" {
		t.Errorf("it is said to be %q", who)
	}
	if _, err := New(Config{FederatedToken: cloudauth.NewSecret(token)}, Options{}); err == nil || !strings.Contains(err.Error(), "its client id is missing") {
		t.Errorf("the environment says who it is: %v", err)
	}
}
