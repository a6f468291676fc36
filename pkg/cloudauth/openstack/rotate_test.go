package openstack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// load makes requests in parallel, with new clients and with ones that are kept, until ended.
type load struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	done   []*atomic.Int64 // answers, by caller
	failed chan error
}

func startLoad(t *testing.T, s *Session, kept ...*gophercloud.ServiceClient) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, failed: make(chan error, 1)}
	list := func(client *gophercloud.ServiceClient) error {
		_, err := servers.List(client, servers.ListOpts{}).AllPages(context.WithoutCancel(ctx))
		return err
	}
	run := func(call func() error) {
		done := new(atomic.Int64)
		l.done = append(l.done, done)
		l.wg.Go(func() {
			for ctx.Err() == nil {
				if err := call(); err != nil {
					select {
					case l.failed <- err:
					default:
					}
					return
				}
				done.Add(1)
			}
		})
	}
	for range 8 {
		run(func() error {
			client, err := s.Service(context.WithoutCancel(ctx), "compute")
			if err != nil {
				return err
			}
			return list(client)
		})
	}
	for _, client := range kept {
		for range 4 {
			run(func() error { return list(client) })
		}
	}
	t.Cleanup(func() { l.cancel(); l.wg.Wait() })
	return l
}

// more waits until n more requests were answered, one of each caller at least: what is under
// way then was asked afterwards.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	before := make([]int64, len(l.done))
	for i, done := range l.done {
		before[i] = done.Load()
	}
	for {
		sum, each := int64(0), true
		for i, done := range l.done {
			answers := done.Load() - before[i]
			sum, each = sum+answers, each && answers > 0
		}
		if sum >= n && each {
			return
		}
		select {
		case err := <-l.failed:
			t.Fatalf("a request failed: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// end ends the requests; every one must have been answered well.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.cancel()
	l.wg.Wait()
	select {
	case err := <-l.failed:
		t.Errorf("a request failed: %v", err)
	default:
	}
}

// rotation is a way of replacing credentials on disk while the old ones end.
type rotation struct {
	name   string
	files  map[string]string // of the start, with OLDID and OLDSECRET
	rotate func(t *testing.T, dir string, fill func(string) string, revoke func())
}

func rotations() []rotation {
	const conf = "[Global]\nauth-url = URL\nregion = RegionOne\napplication-credential-id = OLDID\napplication-credential-secret = OLDSECRET\n"
	plain := map[string]string{"cloud.conf": conf}
	write := func(t *testing.T, dir, name, content string) { writeFile(t, filepath.Join(dir, name), content) }
	return []rotation{
		{"file, then the old one ends", plain, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			write(t, dir, "cloud.conf", fill(conf))
			revoke()
		}},
		{"the old one ends a moment before the file changes", plain, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			revoke()
			<-time.After(300 * time.Millisecond)
			write(t, dir, "cloud.conf", fill(conf))
		}},
		{"the old one ends long before the file changes", plain, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			revoke()
			<-time.After(6 * time.Second)
			write(t, dir, "cloud.conf", fill(conf))
		}},
		{"the file is half written for a while", plain, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			text := fill(conf)
			write(t, dir, "cloud.conf", text[:len(text)-20])
			revoke()
			<-time.After(300 * time.Millisecond)
			write(t, dir, "cloud.conf", text)
		}},
		{"the file is missing for a while", plain, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			if err := os.Remove(filepath.Join(dir, "cloud.conf")); err != nil {
				t.Error(err)
			}
			revoke()
			<-time.After(300 * time.Millisecond)
			write(t, dir, "cloud.conf", fill(conf))
		}},
		{"a mounted Secret is swapped", map[string]string{"..1/cloud.conf": conf, "..data": "-> ..1", "cloud.conf": "-> ..data/cloud.conf"}, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			if err := os.Mkdir(filepath.Join(dir, "..2"), 0o700); err != nil {
				t.Error(err)
			}
			write(t, dir, "..2/cloud.conf", fill(conf))
			if err := os.Symlink("..2", filepath.Join(dir, "..data_tmp")); err != nil {
				t.Error(err)
			}
			if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
				t.Error(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
				t.Error(err)
			}
			revoke()
		}},
		{"the id in one file, the secret in another one later", map[string]string{
			"cloud.conf":  "[Global]\nuse-clouds = true\ncloud = c\nclouds-file = DIR/clouds.yaml\n",
			"clouds.yaml": "clouds: {c: {auth: {auth_url: \"URL\", application_credential_id: OLDID}}}\n",
			"secure.yaml": "clouds: {c: {auth: {application_credential_secret: OLDSECRET}}}\n",
		}, func(t *testing.T, dir string, fill func(string) string, revoke func()) {
			write(t, dir, "clouds.yaml", fill("clouds: {c: {auth: {auth_url: \"URL\", application_credential_id: OLDID}}}\n"))
			revoke()
			<-time.After(300 * time.Millisecond)
			write(t, dir, "secure.yaml", fill("clouds: {c: {auth: {application_credential_secret: OLDSECRET}}}\n"))
		}},
	}
}

// OCCM reads its credentials once, so that rotating them takes a restart, and what runs
// meanwhile fails. Here nothing fails, in none of the ways that files are replaced, although
// nobody polls them: the refusal is enough.
func TestComplaint2284CredentialsRotateWithoutOneFailure(t *testing.T) {
	for _, r := range rotations() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			sim := ossim.ForTest(t)
			dir := t.TempDir()
			current := sim.AddApplicationCredential("0")
			fill := func(text string) string {
				return strings.NewReplacer("URL", sim.AuthURL(), "DIR", dir, "OLDID", current.ID, "OLDSECRET", `"`+current.Secret+`"`).Replace(text)
			}
			for name, content := range r.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if to, ok := strings.CutPrefix(content, "-> "); ok {
					if err := os.Symlink(to, path); err != nil {
						t.Fatal(err)
					}
					continue
				}
				writeFile(t, path, fill(content))
			}
			s := openFile(t, filepath.Join(dir, "cloud.conf"))
			kept, err := s.Service(t.Context(), "compute")
			if err != nil {
				t.Fatal(err)
			}
			l := startLoad(t, s, kept)
			l.more(t, 100)
			before, old := s.login(), current
			current = sim.AddApplicationCredential("1")
			sim.ResetRequests()
			r.rotate(t, dir, fill, func() { sim.DeleteApplicationCredential(old.ID) })
			l.more(t, 200)
			l.end(t)
			if s.login() == before {
				t.Error("the new credentials are not in use; the test shows nothing")
			}
			before.http.CloseIdleConnections()
			if n := sim.Count("identity", "POST"); n > 4 {
				t.Errorf("Keystone was asked %d times during the rotation, want a few", n)
			}
		})
	}
}

// Again and again, with the poller, and with passwords, of which an account has one at a time.
func TestComplaint2284PasswordRotatesUnderLoad(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, sim.CloudConf())
	s := openFile(t, file)
	ctx, cancel := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polling.Go(func() {
		for ctx.Err() == nil { // faster than Run, so that both ways meet
			s.files.lookNow(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	defer polling.Wait()
	defer cancel()
	kept, err := s.Service(ctx, "compute")
	if err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, s, kept)
	var logins []*login
	for n := range 10 {
		logins = append(logins, s.login())
		password := fmt.Sprintf("password-%d", n)
		change := func() {
			writeFile(t, file, strings.Replace(sim.CloudConf(), "password = "+ossim.UserPassword, "password = "+password, 1))
		}
		if n%2 == 0 {
			change()
			sim.SetPassword(ossim.UserName, password)
		} else {
			sim.SetPassword(ossim.UserName, password)
			change()
		}
		l.more(t, 100)
	}
	l.end(t)
	for _, old := range logins {
		old.http.CloseIdleConnections()
	}
}

// Run alone finds changed files where nothing refuses the old credentials.
func TestRunTakesChangedFiles(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, sim.CloudConf())
	cfg, err := readGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	s := open(t, cfg, Options{ConfigFile: file, Reloaded: func(err error) { told <- err }}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	ac := newAppCredential(t, sim, "after")
	writeFile(t, file, appCredentialConf(sim, ac))
	err = eventually.Received(t, "the changed file is in use", told)
	if got := s.login().settings.cfg.ApplicationCredentialID; err != nil || got != ac.ID {
		t.Errorf("application credential %q is in use (%v), want %q", got, err, ac.ID)
	}
}

// The CA on disk and the server's certificate are replaced in either order.
func TestCARotatesWithoutOneFailure(t *testing.T) {
	for _, fileFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("file first=%t", fileFirst), func(t *testing.T) {
			t.Parallel()
			sim := ossim.ForTest(t, ossim.Options{TLS: true})
			sim.CloseAfterAnswer()
			s, dir := openWithCA(t, sim)
			kept, err := s.Service(t.Context(), "compute")
			if err != nil {
				t.Fatal(err)
			}
			l := startLoad(t, s, kept)
			l.more(t, 50)
			for range 2 {
				ca, use, err := sim.NewCertificates()
				if err != nil {
					t.Fatal(err)
				}
				steps := []func(){use, func() { writeFile(t, filepath.Join(dir, "ca.pem"), string(ca)) }}
				if fileFirst {
					steps[0], steps[1] = steps[1], steps[0]
				}
				steps[0]()
				<-time.After(200 * time.Millisecond)
				steps[1]()
				l.more(t, 100)
			}
			l.end(t)
		})
	}
}

// openWithCA returns a Session for a folder with cloud.conf and ca.pem.
func openWithCA(t *testing.T, sim *ossim.Sim, more ...string) (s *Session, dir string) {
	t.Helper()
	ca, err := os.ReadFile(sim.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file := filepath.Join(dir, "cloud.conf")
	writeFile(t, filepath.Join(dir, "ca.pem"), string(ca))
	conf := strings.Replace(sim.CloudConf(), sim.CAFile(), filepath.Join(dir, "ca.pem"), 1)
	writeFile(t, file, strings.Replace(conf, "[Global]\n", "[Global]\n"+strings.Join(more, "\n")+"\n", 1))
	return openFile(t, file), dir
}

func TestClientCertificateRotatesWithoutOneFailure(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t, ossim.Options{TLS: true})
	sim.CloseAfterAnswer()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	cert, key := clientCertificate(t)
	writeFile(t, certFile, cert)
	writeFile(t, keyFile, key)
	sim.RequireClientCertificate([]byte(cert))
	s, _ := openWithCA(t, sim, "cert-file = "+certFile, "key-file = "+keyFile)
	kept, err := s.Service(t.Context(), "compute")
	if err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, s, kept)
	l.more(t, 50)
	cert, key = clientCertificate(t)
	writeFile(t, certFile, cert)
	sim.RequireClientCertificate([]byte(cert))
	<-time.After(200 * time.Millisecond)
	writeFile(t, keyFile, key) // the pair does not fit until here
	l.more(t, 100)
	l.end(t)
}

// clientCertificate makes a certificate that is its own CA, and its key.
func clientCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

// Credentials that end without new ones fail as soon as there is no hope, and the many callers
// neither ask Keystone nor wait one after the other.
func TestRefusedWithoutNewCredentials(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	ac := newAppCredential(t, sim, "only")
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, appCredentialConf(sim, ac))
	s := openFile(t, file)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sim.DeleteApplicationCredential(ac.ID)
	sim.ResetRequests()
	start := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 3 {
				if e := AsError(listServers(t.Context(), s)); e == nil || e.Reason != Rejected {
					t.Errorf("got %v, want an error with the reason Rejected", e)
				}
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 30*rotationGrace { // 60 of them if each waits in its turn
		t.Errorf("60 requests took %s to fail, want little more than %s", took, rotationGrace)
	}
	if n := sim.Count("identity", "POST"); n > 4 {
		t.Errorf("the deleted credential was sent %d times, want a few", n)
	}
}

// Wrong new credentials are sent to Keystone once, however many requests are refused
// meanwhile: accounts get locked otherwise.
func TestWrongNewCredentialsAreNotTriedByEveryone(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, sim.CloudConf())
	s := openFile(t, file)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, strings.Replace(sim.CloudConf(), "password = "+ossim.UserPassword, "password = wr0ng-password", 1))
	sim.SetPassword(ossim.UserName, "another-password")
	sim.ResetRequests()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if listServers(t.Context(), s) == nil {
				t.Error("a request is answered although no password is right")
			}
		})
	}
	wg.Wait()
	if n := sim.Count("identity", "POST"); n > 4 {
		t.Errorf("wrong passwords were sent %d times, want a few", n)
	}
}

// Credentials of another project would make all that is there look gone: they wait for a restart.
func TestOtherProjectAndRegionNeedARestart(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, file, sim.CloudConf())
	var told error
	cfg, err := readGlobal(file)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, cfg, Options{ConfigFile: file, Reloaded: func(err error) { told = err }}, nil)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	before := s.login()
	admin := strings.NewReplacer("username = "+ossim.UserName, "username = "+ossim.AdminName, "password = "+ossim.UserPassword, "password = "+ossim.AdminPassword)
	writeFile(t, file, admin.Replace(strings.Replace(sim.CloudConf(), "tenant-name = "+ossim.ProjectName, "tenant-name = "+ossim.AdminName, 1)))
	s.files.lookNow(t.Context())
	if e := AsError(told); s.login() != before || e == nil || e.Reason != Misconfigured || !strings.Contains(e.Error(), "restart to change the project") {
		t.Errorf("credentials of another project: %v", told)
	}
	writeFile(t, file, admin.Replace(sim.CloudConf())) // another user in the same project, and another region
	conf, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, strings.Replace(string(conf), "region = "+ossim.Region, "region = Elsewhere", 1))
	s.files.lookNow(t.Context())
	if told != nil || s.login() == before || s.Region() != ossim.Region {
		t.Errorf("another user in another region: %v, region %s", told, s.Region())
	}
	if err := listServers(t.Context(), s); err != nil {
		t.Error(err)
	}
	before.http.CloseIdleConnections()
}

// A client lent newer tokens goes on when those end too.
func TestOldClientsFollowEveryRotation(t *testing.T) {
	t.Parallel()
	sim := ossim.ForTest(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	acs := []ossim.AppCredential{sim.AddApplicationCredential("0"), sim.AddApplicationCredential("1"), sim.AddApplicationCredential("2")}
	write := func(n int) {
		writeFile(t, file, fmt.Sprintf("[Global]\nauth-url = %s\napplication-credential-id = %s\napplication-credential-secret = %q\n", sim.AuthURL(), acs[n].ID, acs[n].Secret))
	}
	write(0)
	s := openFile(t, file)
	client, err := s.Service(t.Context(), "compute")
	if err != nil {
		t.Fatal(err)
	}
	list := func() {
		t.Helper()
		if _, err := servers.List(client, servers.ListOpts{}).AllPages(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list()
	first := s.login()
	defer first.http.CloseIdleConnections()
	for n := 1; n < len(acs); n++ {
		write(n)
		s.files.lookNow(t.Context())
		if got := s.login().settings.cfg.ApplicationCredentialID; got != acs[n].ID {
			t.Fatalf("application credential %s is in use, want %s", got, acs[n].ID)
		}
		sim.DeleteApplicationCredential(acs[n-1].ID)
		list()
		sim.ExpireTokens()
		list()
		list()
	}
	if !cloudauth.NewSecret(acs[2].Secret).Equal(s.login().settings.cfg.ApplicationCredentialSecret) {
		t.Error("the last secret is not in use")
	}
}
