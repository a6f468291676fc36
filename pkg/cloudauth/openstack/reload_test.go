package openstack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func appCredentialConf(sim *ossim.Sim, ac *applicationcredentials.ApplicationCredential) string {
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = RegionOne\napplication-credential-id = %s\napplication-credential-secret = %q\n[LoadBalancer]\nx = y\n", sim.AuthURL(), ac.ID, ac.Secret)
}

// openFile returns a Session for a cloud.conf on disk.
func openFile(t *testing.T, file string) *Session {
	t.Helper()
	cfg, err := readGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, cfg, Options{ConfigFile: file}, nil)
}

func TestBrokenFilesKeepTheOldCredentials(t *testing.T) {
	sim := ossim.ForTest(t)
	good, better := newAppCredential(t, sim, "good"), newAppCredential(t, sim, "better")
	file := filepath.Join(t.TempDir(), "cloud.conf")
	conf := appCredentialConf(sim, good)
	writeFile(t, file, conf)
	cfg, err := readGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	var results []error
	s := open(t, cfg, Options{ConfigFile: file, Reloaded: func(err error) { results = append(results, err) }}, nil)
	now := time.Now()
	var logged strings.Builder
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged))))
	poll := func(d time.Duration) string {
		logged.Reset()
		now = now.Add(d)
		results = nil
		_ = s.files.look(ctx, now)
		if err := listServers(ctx, s); err != nil {
			t.Errorf("the Session does not work any more: %v", err)
		}
		return logged.String()
	}
	if out := poll(pollEvery); out != "" {
		t.Errorf("nothing changed, but it logs %q", out)
	}
	for name, tt := range map[string]struct {
		write func() error
		want  string
	}{
		"gone":       {func() error { return os.Remove(file) }, "reading cloud.conf again"},
		"empty":      {func() error { return os.WriteFile(file, nil, 0o600) }, file + " is empty"},
		"syntax":     {func() error { return os.WriteFile(file, []byte("[Global\n"), 0o600) }, "line 1: expected ']'"},
		"incomplete": {func() error { return os.WriteFile(file, []byte("[Global]\nauth-url = http://k\n"), 0o600) }, "no credentials"},
		"wrong secret": {func() error {
			return os.WriteFile(file, []byte(strings.Replace(conf, good.Secret, "wr0ng-secret", 1)), 0o600)
		}, "refuses application credential"},
		"unreachable": {func() error {
			return os.WriteFile(file, []byte(strings.Replace(conf, sim.AuthURL(), "http://127.0.0.1:1", 1)), 0o600)
		}, "connection refused"},
		"CA is missing": {func() error {
			return os.WriteFile(file, []byte(strings.Replace(conf, "region", "ca-file = /nowhere\nregion", 1)), 0o600)
		}, "ca-file cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.write(); err != nil {
				t.Fatal(err)
			}
			out := poll(pollEvery)
			if !strings.Contains(out, tt.want) || !strings.Contains(out, "the old ones stay in use") {
				t.Errorf("it logs %q, want %q", out, tt.want)
			}
			if strings.Contains(out, good.Secret) || strings.Contains(out, "wr0ng-secret") {
				t.Errorf("the log shows a secret: %s", out)
			}
			if len(results) != 1 || results[0] == nil {
				t.Errorf("the hook is told %v, want one failure", results)
			}
			if out := poll(firstRetry / 2); out != "" || results != nil {
				t.Errorf("it tries again at once: %q %v", out, results)
			}
			if out := poll(2 * pollEvery); out != "" || len(results) != 1 || results[0] == nil {
				t.Errorf("later it logs %q and tells the hook %v, want a silent attempt", out, results)
			}
		})
	}
	writeFile(t, file, conf+"[Route]\nrouter-id = x\n")
	login := s.login()
	if out := poll(pollEvery); !strings.Contains(out, "again the ones in use") || s.login() != login || len(results) != 1 || results[0] != nil {
		t.Errorf("the old credentials are back, but it logs %q", out)
	}
	writeFile(t, file, conf+"[Route]\nrouter-id = y\n")
	if out := poll(pollEvery); out != "" || s.login() != login {
		t.Errorf("another section changed, but it logs %q", out)
	}
	writeFile(t, file, appCredentialConf(sim, better))
	if out := poll(pollEvery); !strings.Contains(out, "are in use now") || !strings.Contains(out, better.ID) || len(results) != 1 || results[0] != nil {
		t.Errorf("the repaired file is not taken: %q", out)
	}
	if out := poll(pollEvery); out != "" {
		t.Errorf("nothing changed, but it logs %q", out)
	}
}

// A token that is known to be refused or over makes Check get a new one.
func TestCheckRenews(t *testing.T) {
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := sim.Count("identity", "POST"); n != 1 {
		t.Errorf("%d tokens for 3 checks within the token's life, want 1", n)
	}
	l := s.login()
	l.mu.Lock()
	l.expires = time.Now()
	l.mu.Unlock()
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sim.Count("identity", "POST"); n != 2 {
		t.Errorf("%d tokens after the first one ended, want 2", n)
	}
}

// Every file that the credentials came from is watched, not only cloud.conf.
func TestOtherFilesAreWatched(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{TLS: true})
	ca, err := os.ReadFile(sim.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	otherCA, _, err := sim.NewCertificates()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	caFile, cloudsFile, confFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "clouds.yaml"), filepath.Join(dir, "cloud.conf")
	cloudsYAML := fmt.Sprintf("clouds:\n  mine:\n    cacert: %q\n    auth: {auth_url: %q, username: k8s, password: %%s, project_name: k8s, user_domain_id: default, project_domain_id: default}\n", caFile, sim.AuthURL())
	writeFile(t, caFile, string(ca))
	writeFile(t, cloudsFile, fmt.Sprintf(cloudsYAML, ossim.UserPassword))
	writeFile(t, confFile, fmt.Sprintf("[Global]\nuse-clouds = true\ncloud = mine\nclouds-file = %s\n", cloudsFile))
	s := openFile(t, confFile)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, file, content string
		taken               bool
	}{
		{"CA replaced by nonsense", caFile, "nonsense", false},
		{"CA of another cloud", caFile, string(otherCA), false}, // new credentials are not tried with the old CA
		{"CA back with a comment", caFile, string(ca) + "\n# new\n", true},
		{"wrong password in clouds.yaml", cloudsFile, fmt.Sprintf(cloudsYAML, "wrong"), false},
		{"clouds.yaml repaired", cloudsFile, fmt.Sprintf(cloudsYAML, ossim.UserPassword) + "# new\n", true},
		{"secure.yaml appears", filepath.Join(dir, "secure.yaml"), "clouds:\n  mine:\n    auth: {password: secret}\n", true},
	} {
		before := s.login()
		writeFile(t, step.file, step.content)
		s.files.lookNow(t.Context())
		if taken := s.login() != before; taken != step.taken {
			t.Errorf("%s: new login taken = %t, want %t", step.name, taken, step.taken)
		}
		if err := listServers(t.Context(), s); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	sim := ossim.ForTest(t)
	ac := newAppCredential(t, sim, "keppel")
	names := Identity{User: "k8s", UserDomain: "Default", Project: "k8s", ProjectDomain: "Default", Secret: cloudauth.NewSecret(ossim.UserPassword)}
	byID := passwordConfig(sim)
	byID.UserDomainName, byID.UserDomainID = "", "default"
	for name, tt := range map[string]struct {
		cfg      Config
		want     Identity
		requests int
	}{
		"names":                       {cfg: passwordConfig(sim), want: names},
		"names from Keystone":         {cfg: byID, want: names, requests: 1},
		"application credential":      {cfg: Config{AuthURL: sim.AuthURL(), ApplicationCredentialID: ac.ID, ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret)}, want: Identity{ApplicationCredentialID: ac.ID, Secret: cloudauth.NewSecret(ac.Secret)}},
		"application credential name": {cfg: Config{AuthURL: sim.AuthURL(), Username: "k8s", UserDomainID: "default", ApplicationCredentialName: "keppel", ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret)}, want: Identity{ApplicationCredentialID: ac.ID, Secret: cloudauth.NewSecret(ac.Secret)}, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tt.cfg, Options{}, nil)
			sim.ResetRequests()
			got, err := s.Identity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !got.Secret.Equal(tt.want.Secret) {
				t.Error("wrong secret")
			}
			got.Secret, tt.want.Secret = cloudauth.Secret{}, cloudauth.Secret{}
			if got != tt.want && tt.want.ApplicationCredentialID == "" || got.ApplicationCredentialID != tt.want.ApplicationCredentialID {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if n := len(sim.Requests()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
	s := open(t, Config{AuthURL: sim.AuthURL(), Token: cloudauth.NewSecret("tok")}, Options{}, nil)
	if _, err := s.Identity(t.Context()); AsError(err) == nil {
		t.Errorf("Identity of a token: %v, want an error", err)
	}
}

func TestExpiryOfTokensIsTold(t *testing.T) {
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, appCredentialConf(sim, newAppCredential(t, sim, "a")))
	cfg, err := readGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	var told []time.Time
	s := open(t, cfg, Options{Expires: func(at time.Time) { told = append(told, at) }}, nil)
	for range 2 {
		if err := listServers(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || time.Until(told[0]) < time.Minute || !told[0].Equal(s.login().expires) {
		t.Errorf("told %v, want once the end of the token, %v", told, s.login().expires)
	}
}
