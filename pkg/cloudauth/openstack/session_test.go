package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// passwordConfig logs in to the simulator as its user.
func passwordConfig(sim *ossim.Sim) Config {
	return Config{
		AuthURL: sim.AuthURL(), Region: ossim.Region, CAFile: sim.CAFile(),
		Username: ossim.UserName, Password: cloudauth.NewSecret(ossim.UserPassword), UserDomainName: "Default",
		TenantName: ossim.ProjectName, TenantDomainName: "Default",
	}
}

// open returns a Session that sees only the given environment.
func open(t *testing.T, cfg Config, o Options, env map[string]string) *Session {
	t.Helper()
	s, err := newSession(cfg, o, func(key string) string { return env[key] })
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { s.login().http.CloseIdleConnections() })
	return s
}

// listServers is a call that needs a good token.
func listServers(ctx context.Context, s *Session) error {
	client, err := s.Service(ctx, "compute")
	if err != nil {
		return err
	}
	_, err = servers.List(client, servers.ListOpts{}).AllPages(ctx)
	return err
}

// newAppCredential makes an application credential of the simulator's user.
func newAppCredential(t *testing.T, sim *ossim.Sim, name string) *applicationcredentials.ApplicationCredential {
	t.Helper()
	client, user := identityClient(t, sim)
	ac, err := applicationcredentials.Create(t.Context(), client, user, applicationcredentials.CreateOpts{Name: name}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return ac
}

func identityClient(t *testing.T, sim *ossim.Sim) (*gophercloud.ServiceClient, string) {
	t.Helper()
	s := open(t, passwordConfig(sim), Options{}, nil)
	pc, _, err := s.login().ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var who struct{ User struct{ ID string } }
	if err := pc.GetAuthResult().(result).ExtractInto(&who); err != nil {
		t.Fatal(err)
	}
	return &gophercloud.ServiceClient{ProviderClient: pc, Endpoint: sim.AuthURL() + "/", Type: "identity"}, who.User.ID
}

func TestWaysOfAuthentication(t *testing.T) {
	for _, useTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", useTLS), func(t *testing.T) { waysOfAuthentication(t, ossim.ForTest(t, ossim.Options{TLS: useTLS})) })
	}
}

func waysOfAuthentication(t *testing.T, sim *ossim.Sim) {
	ac := newAppCredential(t, sim, "ccm")
	client, user := identityClient(t, sim)
	base := Config{AuthURL: sim.AuthURL(), CAFile: sim.CAFile()}
	with := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	cloudsFile := filepath.Join(t.TempDir(), "clouds.yaml")
	writeFile(t, cloudsFile, fmt.Sprintf("clouds:\n  mine:\n    region_name: RegionOne\n    cacert: %q\n    auth: {auth_url: %q, username: k8s, password: secret, project_name: k8s, user_domain_id: default, project_domain_id: default}\n", sim.CAFile(), sim.AuthURL()))
	env := map[string]string{"OS_USERNAME": "k8s", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "k8s", "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_CACERT": sim.CAFile()}
	for name, tt := range map[string]struct {
		cfg Config
		env map[string]string
	}{
		"password by names": {cfg: passwordConfig(sim)},
		"password by ids": {cfg: with(func(c *Config) {
			c.UserID, c.Password, c.TenantID = user, cloudauth.NewSecret("secret"), projectOf(t, client)
		})},
		"password, one domain for both": {cfg: with(func(c *Config) {
			c.Username, c.Password, c.TenantName, c.DomainID = "k8s", cloudauth.NewSecret("secret"), "k8s", "default"
		})},
		"auth-url without version": {cfg: func() Config {
			c := passwordConfig(sim)
			c.AuthURL = strings.TrimSuffix(c.AuthURL, "/v3")
			return c
		}()},
		"application credential by id": {cfg: with(func(c *Config) {
			c.ApplicationCredentialID, c.ApplicationCredentialSecret = ac.ID, cloudauth.NewSecret(ac.Secret)
		})},
		"application credential by name": {cfg: with(func(c *Config) {
			c.ApplicationCredentialName, c.ApplicationCredentialSecret = "ccm", cloudauth.NewSecret(ac.Secret)
			c.Username, c.UserDomainName = "k8s", "Default"
		})},
		"token": {cfg: with(func(c *Config) { c.Token = cloudauth.NewSecret(client.Token()) })},
		"token for a project": {cfg: with(func(c *Config) {
			c.Token, c.TenantName, c.TenantDomainName = cloudauth.NewSecret(client.Token()), "k8s", "Default"
		})},
		"clouds.yaml":               {cfg: Config{UseClouds: true, CloudsFile: cloudsFile, Cloud: "mine"}},
		"clouds.yaml by OS_CLOUD":   {env: map[string]string{"OS_CLOUD": "mine", "OS_CLIENT_CONFIG_FILE": cloudsFile}},
		"environment":               {cfg: base, env: env},
		"tls-insecure without a CA": {cfg: func() Config { c := passwordConfig(sim); c.CAFile, c.TLSInsecure = "", true; return c }()},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tt.cfg, Options{}, tt.env)
			if err := listServers(t.Context(), s); err != nil {
				t.Errorf("listing servers: %v", err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

func projectOf(t *testing.T, client *gophercloud.ServiceClient) string {
	t.Helper()
	var p struct{ Project struct{ ID string } }
	if err := client.GetAuthResult().(result).ExtractInto(&p); err != nil {
		t.Fatal(err)
	}
	return p.Project.ID
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFirstUseAuthenticatesOnce(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for name := range services {
				if _, err := s.Service(t.Context(), name); err != nil {
					t.Errorf("Service(%s): %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(sim.Requests()); got != 1 {
		t.Errorf("%d requests for clients of all services from 50 goroutines, want 1 (the token)", got)
	}
}

func TestServiceURLs(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{UserAgent: "isthmus-test"}, nil)
	client, _ := identityClient(t, sim)
	got := map[string]string{}
	for name := range services {
		sc, err := s.Service(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = strings.TrimPrefix(sc.ServiceURL("x"), sim.URL())
	}
	want := map[string]string{
		"compute": "/compute/v2.1/x", "network": "/network/v2.0/x", "load-balancer": "/load-balancer/v2.0/x",
		"block-storage": "/volume/v3/" + projectOf(t, client) + "/x", "key-manager": "/key-manager/v1/x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
	sc, err := s.Service(t.Context(), "compute")
	if err != nil {
		t.Fatal(err)
	}
	sc.Microversion = "2.79"
	if again, err := s.Service(t.Context(), "compute"); err != nil || again.Microversion != "" {
		t.Errorf("a client got the microversion of another one (%v)", err)
	}
}

// A token that ends early is renewed once for all the requests that it fails.
func TestRenewalIsSingle(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	revoke(t, sim, s)
	sim.ResetRequests()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := listServers(t.Context(), s); err != nil {
				t.Errorf("listing servers: %v", err)
			}
		})
	}
	wg.Wait()
	if got := sim.Count("identity", "POST"); got != 1 {
		t.Errorf("%d tokens for 20 refused requests, want 1", got)
	}
}

// revoke makes Keystone forget the Session's token.
func revoke(t *testing.T, sim *ossim.Sim, s *Session) {
	t.Helper()
	pc, _, err := s.login().ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, sim.AuthURL()+"/auth/tokens", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", pc.Token())
	req.Header.Set("X-Subject-Token", pc.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("revoking the token: %s", resp.Status)
	}
}

// A service that refuses good tokens must not make Keystone issue one for every request.
func TestNoStormOfRenewals(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	sim.AddFault(ossim.Fault{Service: "compute", Status: 401})
	begin := time.Now()
	var last error
	for range 30 {
		last = listServers(t.Context(), s)
		if last == nil {
			t.Fatal("the compute service answers although it refuses every token")
		}
	}
	if got, most := sim.Count("identity", "POST"), 1+renewBurst+int(time.Since(begin)/renewEvery); got > most {
		t.Errorf("%d tokens for 30 refused requests, want at most %d", got, most)
	}
	if e := AsError(last); e == nil || e.Reason != Rejected {
		t.Errorf("the last error is %v, want one with the reason Rejected", last)
	}
}

// Wrong credentials are not tried again by every caller: accounts get locked that way.
func TestNoStormOfWrongPasswords(t *testing.T) {
	sim := ossim.ForTest(t)
	cfg := passwordConfig(sim)
	cfg.Password = cloudauth.NewSecret("wr0ng-password")
	s := open(t, cfg, Options{now: standing()}, nil)
	for range 20 {
		for _, err := range []error{s.Check(t.Context()), listServers(t.Context(), s)} {
			if e := AsError(err); e == nil || e.Reason != Rejected {
				t.Fatalf("got %v, want an error with the reason Rejected", err)
			}
		}
	}
	if got := sim.Count("identity", "POST"); got != 1 {
		t.Errorf("the wrong password was sent %d times by 40 calls at once, want once", got)
	}
}

// standing is a clock that stands.
func standing() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// A caller that gives up says nothing about the credentials, and takes no one's renewal along.
func TestCallerGivesUp(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	repair := sim.AddFault(ossim.Fault{Service: "identity", Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Check of a hanging Keystone: %v", err)
	}
	repair()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check after another caller gave up: %v", err)
	}
	if err := s.renew(ctx, s.login()); err != nil {
		t.Errorf("renewal for a caller that is gone: %v", err)
	}
}

// A hundred callers of a Keystone that hangs wait together, for as long as one request, and then leave it alone.
func TestHundredCallersOfAHangingServer(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{RequestTimeout: 300 * time.Millisecond, now: standing()}, nil)
	repair := sim.AddFault(ossim.Fault{Service: "identity", Hang: true})
	before := sim.Count("identity", "")
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if e := AsError(s.Check(t.Context())); e == nil || e.Reason != Unreachable {
				t.Errorf("got %v", e)
			}
		})
	}
	all.Wait()
	if n := sim.Count("identity", "") - before; n != 1 {
		t.Errorf("%d requests: they wait one after the other", n)
	}
	repair()
}

// The wait after a failure doubles, longer after a refusal than in an outage.
func TestWaitAfterFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want []time.Duration
	}{
		"outage":    {&Error{Reason: Failed}, []time.Duration{1, 2, 4, 8, 10, 10}},
		"refusal":   {&Error{Reason: Rejected}, []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120}},
		"slow down": {&Error{Reason: Throttled, RetryAfter: 7 * time.Second}, []time.Duration{7, 7, 7, 8, 10}},
		"for hours": {&Error{Reason: Throttled, RetryAfter: time.Hour}, []time.Duration{60}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range tt.want {
				if wait := leaveAlone(i+1, tt.err); wait != want*time.Second {
					t.Errorf("after failure %d it waits %s, want %s", i+1, wait, want*time.Second)
				}
			}
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	sim, secure := ossim.ForTest(t), ossim.ForTest(t, ossim.Options{TLS: true})
	mutual := ossim.ForTest(t, ossim.Options{TLS: true})
	cert, _ := clientCertificate(t)
	mutual.RequireClientCertificate([]byte(cert))
	otherCA := ossim.ForTest(t, ossim.Options{TLS: true}).CAFile()
	notKeystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }))
	defer notKeystone.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(sim.URL()+"/identity/v3/auth/tokens", http.StatusTemporaryRedirect))
	defer redirecting.Close()
	for name, tt := range map[string]struct {
		change  func(*Config)
		fault   *ossim.Fault
		service string
		reason  Reason
		want    []string
	}{
		"wrong password": {change: func(c *Config) { c.Password = cloudauth.NewSecret("wr0ng-password") }, reason: Rejected,
			want: []string{`refuses user "k8s" (401: The request you have made requires authentication.)`, "check the password"}},
		"wrong application credential": {change: func(c *Config) {
			*c = Config{AuthURL: c.AuthURL, ApplicationCredentialID: "12ab", ApplicationCredentialSecret: cloudauth.NewSecret("wr0ng-password")}
		}, reason: Rejected, want: []string{"refuses application credential 12ab", "openstack application credential create"}},
		"wrong token": {change: func(c *Config) { *c = Config{AuthURL: c.AuthURL, Token: cloudauth.NewSecret("wr0ng-password")} }, reason: Rejected,
			want: []string{"refuses the configured token", "put a new one"}},
		"unreachable":    {change: func(c *Config) { c.AuthURL = "http://127.0.0.1:1/v3" }, reason: Unreachable, want: []string{"127.0.0.1:1", "connection refused", "check auth-url"}},
		"no CA":          {change: func(c *Config) { c.AuthURL = secure.AuthURL() }, reason: Unreachable, want: []string{"the system's CAs do not vouch for", "set ca-file"}},
		"wrong CA":       {change: func(c *Config) { c.AuthURL, c.CAFile = secure.AuthURL(), otherCA }, reason: Unreachable, want: []string{"ca-file " + otherCA + " does not vouch for", "set ca-file"}},
		"https to http":  {change: func(c *Config) { c.AuthURL = strings.Replace(c.AuthURL, "http:", "https:", 1) }, reason: Unreachable, want: []string{"does not speak TLS"}},
		"wrong path":     {change: func(c *Config) { c.AuthURL += "/nonsense" }, reason: Unreachable, want: []string{"no Identity v3 API (404", "check auth-url"}},
		"not a Keystone": {change: func(c *Config) { c.AuthURL = notKeystone.URL }, reason: Failed, want: []string{"check auth-url"}},
		"redirected":     {change: func(c *Config) { c.AuthURL = redirecting.URL }, reason: Unreachable, want: []string{"not followed because the token would go there"}},
		"hanging":        {change: func(*Config) {}, fault: &ossim.Fault{Service: "identity", Hang: true}, reason: Unreachable, want: []string{"does not answer in time"}},
		"cut answer":     {change: func(*Config) {}, fault: &ossim.Fault{Service: "identity", Truncate: true}, reason: Unreachable, want: []string{"does not answer as Keystone does"}},
		"outage": {change: func(*Config) {}, fault: &ossim.Fault{Service: "identity", Status: 503, Body: "\n\nx" + ossim.UserPassword + "y " + strings.Repeat("z", 10000)}, reason: Failed,
			want: []string{"503: x[redacted]y zzz", "asked again later"}},
		"throttled": {change: func(*Config) {}, fault: &ossim.Fault{Service: "identity", Status: 429, RetryAfter: 7 * time.Second}, reason: Throttled, want: []string{"slow down"}},
		"other interface": {change: func(c *Config) { c.EndpointType = "internal" }, fault: &ossim.Fault{Service: "identity", Body: `{"token": {"expires_at": "2100-01-01T00:00:00.000000Z", "catalog": [{"type": "load-balancer", "endpoints": [{"interface": "public", "region": "RegionOne", "url": "http://127.0.0.1:1/"}]}]}}`}, reason: NoEndpoint,
			want: []string{`no internal endpoint of service "load-balancer" in region "RegionOne"`, "RegionOne (public)", "os-endpoint-type"}},
		"no project": {change: func(c *Config) {
			*c = Config{AuthURL: c.AuthURL, Username: "admin", Password: cloudauth.NewSecret(ossim.AdminPassword), UserDomainName: "Default"}
		}, reason: NoEndpoint,
			want: []string{"no catalog because it is for no project", "set tenant-id or tenant-name"}},
		"project of others":  {change: func(c *Config) { c.TenantName = ossim.AdminName }, reason: Rejected, want: []string{"check the password", "the project, and that the user has a role in it"}},
		"client certificate": {change: func(c *Config) { c.AuthURL, c.CAFile = mutual.AuthURL(), mutual.CAFile() }, reason: Unreachable, want: []string{"refuses the TLS handshake (", "remote error: tls: certificate required)", "check cert-file and key-file"}},
		"other region":       {change: func(c *Config) { c.Region = "Elsewhere" }, reason: NoEndpoint, want: []string{`no public endpoint of service "load-balancer" in region "Elsewhere"`, "no such region, only RegionOne", "correct the region"}},
		"other service":      {change: func(*Config) {}, service: "dns", reason: Misconfigured, want: []string{`"dns"`}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := passwordConfig(sim)
			tt.change(&cfg)
			timeout := 20 * time.Second
			if tt.fault != nil {
				defer sim.AddFault(*tt.fault)()
				if tt.fault.Hang {
					timeout = time.Second
				}
			}
			s := open(t, cfg, Options{RequestTimeout: timeout}, nil)
			service := tt.service
			if service == "" {
				service = "load-balancer"
			}
			_, err := s.Service(t.Context(), service)
			checkError(t, err, tt.reason, tt.want)
		})
	}
}

func checkError(t *testing.T, err error, reason Reason, want []string) {
	t.Helper()
	e := AsError(err)
	if e == nil {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Reason != reason {
		t.Errorf("reason %d, want %d", e.Reason, reason)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 700 || strings.Contains(text, "wr0ng-password") {
		t.Errorf("the error is not one short line without secrets: %q", text)
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		t.Errorf("the error wraps an answer of Keystone (%d), which may be taken for the service's", answer.Actual)
	}
}

// A clock that is wrong by hours makes no token look over, and is said once.
func TestWrongClock(t *testing.T) {
	sim := ossim.ForTest(t)
	const layout = "2006-01-02T15:04:05.000000Z"
	now := time.Now().UTC()
	sim.AddFault(ossim.Fault{Service: "identity", Body: fmt.Sprintf(`{"token": {"issued_at": %q, "expires_at": %q, "catalog": []}}`,
		now.Add(-2*time.Hour).Format(layout), now.Add(-time.Hour).Format(layout))})
	s := open(t, passwordConfig(sim), Options{}, nil)
	var logged strings.Builder
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged))))
	for range 3 {
		if err := s.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := sim.Count("identity", "POST"); n != 1 {
		t.Errorf("%d tokens for 3 checks, want 1", n)
	}
	if n := strings.Count(logged.String(), `clock differs from Keystone's; set both by NTP, or certificates are refused" ahead="2h0m0s"`); n != 1 {
		t.Errorf("the wrong clock is said %d times in %q, want once", n, logged.String())
	}
}
