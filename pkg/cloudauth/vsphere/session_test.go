package vsphere_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // serves tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/vsphere"
)

// sharing is a service of shared sessions, whose certificate the system's CAs vouch for.
var sharing = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer s3cret-token" {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintf(w, `{"token": %q}`, ticket.Load())
}))

var ticket atomic.Value

func TestMain(m *testing.M) {
	sharing.StartTLS()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sharing.Certificate().Raw}), 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		panic(err)
	}
	code := m.Run()
	sharing.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const user, password = "administrator@vsphere.local", "s3cret"

// vcenter is a simulated one, with somebody who looks at its sessions.
type vcenter struct {
	*testing.T
	server   *simulator.Server
	admin    *govmomi.Client
	dir      string
	requests atomic.Int64
	instead  atomic.Pointer[string] // is answered to everything, if it is set

	mu sync.Mutex
	by auth.Credentials
}

func start(t *testing.T) *vcenter {
	t.Helper()
	model := simulator.VPX()
	model.Machine, model.Host, model.Cluster = 0, 1, 0
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Remove)
	model.Service.TLS, model.Service.RegisterEndpoints = new(tls.Config), true
	model.Service.Listen = &url.URL{User: url.UserPassword(user, password)}
	v := &vcenter{T: t, server: model.Service.NewServer(), dir: t.TempDir(), by: auth.Credentials{User: user, Password: cloudauth.NewSecret(password)}}
	t.Cleanup(v.server.Close)
	var err error
	if v.admin, err = govmomi.NewClient(t.Context(), v.server.URL, true); err != nil {
		t.Fatal(err)
	}
	next := v.server.Config.Handler
	v.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.requests.Add(1)
		if instead := v.instead.Load(); instead != nil {
			_, _ = w.Write([]byte(*instead)) // into the network
			return
		}
		next.ServeHTTP(w, r)
	})
	return v
}

func (v *vcenter) options() auth.Options {
	v.Helper()
	file := filepath.Join(v.dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.server.Certificate().Raw}), 0o600); err != nil {
		v.Fatal(err)
	}
	return auth.Options{Server: v.server.URL.Hostname(), Port: v.server.URL.Port(), CAFile: file, UserAgent: "test/1",
		Credentials: func(context.Context) (auth.Credentials, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.by, nil
		}}
}

func (v *vcenter) session(o auth.Options) *auth.Session {
	v.Helper()
	s, err := auth.New(o)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(s.Close)
	return s
}

// sessions are the keys of those of others than the one who looks.
func (v *vcenter) sessions() (out []string) {
	v.Helper()
	var m mo.SessionManager
	if err := v.admin.RetrieveOne(v.Context(), *v.admin.ServiceContent.SessionManager, []string{"sessionList"}, &m); err != nil {
		v.Fatal(err)
	}
	own, err := session.NewManager(v.admin.Client).UserSession(v.Context())
	if err != nil {
		v.Fatal(err)
	}
	for _, s := range m.SessionList {
		if s.Key != own.Key {
			out = append(out, s.Key)
		}
	}
	return out
}

func ask(ctx context.Context, s *auth.Session) error {
	return s.SOAP(ctx, func(c *vim25.Client) error {
		_, err := methods.GetCurrentTime(ctx, c)
		return err
	})
}

// Complaint CAPV#1552 was of a flood of sessions.
func TestOneSessionForAll(t *testing.T) {
	v := start(t)
	s := v.session(v.options())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := ask(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := v.sessions(); len(got) != 1 {
		t.Fatalf("%d sessions", len(got))
	}
	s.Close()
	if got := v.sessions(); len(got) != 0 {
		t.Errorf("%d sessions are left", len(got))
	}
}

func TestSessionThatEndedIsBegunAnew(t *testing.T) {
	v := start(t)
	s := v.session(v.options())
	for range 3 {
		if err := ask(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := session.NewManager(v.admin.Client).TerminateSession(t.Context(), v.sessions()); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(t.Context(), s); err != nil || len(v.sessions()) != 1 {
		t.Errorf("%v, %d sessions", err, len(v.sessions()))
	}
}

// sessionThat is one to which something happens while it logs in.
func (v *vcenter) sessionThat(during func(*auth.Session)) (s *auth.Session) {
	o := v.options()
	credentials := o.Credentials
	o.Credentials = func(ctx context.Context) (auth.Credentials, error) {
		during(s)
		return credentials(ctx)
	}
	s = v.session(o)
	return s
}

// A session that begins while the credentials become others is ended; the call goes on with them, and does not fail.
func TestResetWhileALoginIsUnderWay(t *testing.T) {
	v := start(t)
	var once sync.Once
	s := v.sessionThat(func(s *auth.Session) { once.Do(s.Reset) })
	for range 2 {
		if err := ask(t.Context(), s); err != nil || len(v.sessions()) != 1 {
			t.Errorf("%v, %d sessions", err, len(v.sessions()))
		}
	}
}

// A program that ends while a login is under way leaves no session behind.
func TestCloseWhileALoginIsUnderWay(t *testing.T) {
	v := start(t)
	s := v.sessionThat((*auth.Session).Close)
	if err := ask(t.Context(), s); err == nil || !strings.Contains(err.Error(), "as the program ends") || len(v.sessions()) != 0 {
		t.Errorf("%v, %d sessions", err, len(v.sessions()))
	}
}

// A vCenter locks users out who are refused too often.
func TestRefusedLoginIsNotTriedAgainAtOnce(t *testing.T) {
	v := start(t)
	v.by.Password = cloudauth.NewSecret("wr0ng")
	s := v.session(v.options())
	for range 5 {
		err := ask(t.Context(), s)
		var e *cloudauth.Error
		if !errors.As(err, &e) || e.Reason != cloudauth.Rejected || !strings.Contains(err.Error(), "refuses the user or the password") || !strings.Contains(err.Error(), user) || strings.Contains(err.Error(), "wr0ng") {
			t.Fatal(err)
		}
	}
	if n := v.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2: what it is, and the login", n)
	}
	v.mu.Lock()
	v.by.Password = cloudauth.NewSecret(password)
	v.mu.Unlock()
	s.Reset()
	if err := ask(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestTagsHaveASessionOfTheirOwn(t *testing.T) {
	v := start(t)
	s := v.session(v.options())
	for range 2 {
		if err := s.REST(t.Context(), func(c *rest.Client) error {
			_, err := tags.NewManager(c).ListCategories(t.Context())
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.requests.Load(); n != 4 {
		t.Errorf("%d requests, want 4: what it is, the login, and two lists", n)
	}
}

func TestSharedSession(t *testing.T) {
	v := start(t)
	got, err := session.NewManager(v.admin.Client).AcquireCloneTicket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket.Store(got)
	v.by = auth.Credentials{SharedURL: sharing.URL, SharedToken: cloudauth.NewSecret("s3cret-token")}
	s := v.session(v.options())
	if err := ask(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	v.by.SharedToken = cloudauth.NewSecret("wr0ng-token")
	s.Reset()
	if err := ask(t.Context(), s); err == nil || !strings.Contains(err.Error(), "the service of shared sessions answers with status 401") || strings.Contains(err.Error(), "wr0ng") {
		t.Error(err)
	}
}

func TestWhoAnswersIsVerified(t *testing.T) {
	v := start(t)
	o := v.options()
	o.CAFile = ""
	if err := ask(t.Context(), v.session(o)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	info := v.server.CertificateInfo()
	for _, thumbprint := range []string{info.ThumbprintSHA1, info.ThumbprintSHA256} {
		o.Thumbprint = thumbprint
		if err := ask(t.Context(), v.session(o)); err != nil {
			t.Errorf("%s: %v", thumbprint, err)
		}
	}
	o.Thumbprint = strings.Repeat("AA:", 19) + "AA"
	if err := ask(t.Context(), v.session(o)); err == nil {
		t.Error("another certificate is taken")
	}
	for _, file := range []string{filepath.Join(v.dir, "none"), "session_test.go"} {
		o.CAFile = file
		if _, err := auth.New(o); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestOutageIsExplained(t *testing.T) {
	v := start(t)
	o := v.options()
	v.server.Close()
	err := ask(t.Context(), v.session(o))
	var e *cloudauth.Error
	if !errors.As(err, &e) || e.Reason != cloudauth.Unreachable || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
	o.Credentials = func(context.Context) (auth.Credentials, error) {
		return auth.Credentials{}, errors.New("Secret a/b does not exist")
	}
	if err := ask(t.Context(), v.session(o)); err == nil || !strings.Contains(err.Error(), "Secret a/b does not exist") {
		t.Error(err)
	}
}

// What answers something else than what it was asked is an error, at the login and later.
func TestAnswersThatAreNone(t *testing.T) {
	v := start(t)
	s := v.session(v.options())
	if err := ask(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	another := `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><HelloResponse xmlns="urn:vim25"/></Body></Envelope>`
	v.instead.Store(&another)
	for range 2 {
		if err := ask(t.Context(), s); err == nil || !strings.Contains(err.Error(), "something else than what it was asked") {
			t.Error(err)
		}
		s.Reset()
	}
}

func TestFromSecret(t *testing.T) {
	const server = "vc.example.org"
	for name, tt := range map[string]struct {
		data       map[string]string
		user, want string
	}{
		"by name":             {data: map[string]string{server + ".username": "u\n", server + ".password": "p\r\n", "other.username": "x"}, user: "u"},
		"another case":        {data: map[string]string{"VC.example.org.username": "u", "VC.example.org.password": "p"}, user: "u"},
		"the exact one first": {data: map[string]string{"VC.example.org.username": "x", "VC.example.org.password": "x", server + ".username": "u", server + ".password": "p"}, user: "u"},
		"by number":           {data: map[string]string{"server_1": server + "\n", "username_1": "u", "password_1": "p", "server_2": "x"}, user: "u"},
		"half by number":      {data: map[string]string{"server_1": server, "username_1": "u"}, want: "it has server_1, but not both, username_1 and password_1"},
		"half":                {data: map[string]string{server + ".username": "u"}, want: "it does not have both, vc.example.org.username and vc.example.org.password"},
		"another's":           {data: map[string]string{"x.username": "u", "x.password": "s3cret"}, want: "it has neither vc.example.org.username and vc.example.org.password, nor a server_ID that is vc.example.org"},
		"empty":               {want: "it is empty"},
	} {
		data := map[string][]byte{}
		for k, v := range tt.data {
			data[k] = []byte(v)
		}
		got, err := auth.FromSecret(data, server)
		if got.User != tt.user || err == nil && got.Password.Reveal() != "p" || (err != nil) != (tt.want != "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := auth.FromSecret(map[string][]byte{server + ".vc-session-manager-url": []byte("https://x\n"), server + ".vc-session-manager-token": []byte("t")}, server); err != nil || got.SharedURL != "https://x" || got.SharedToken.Reveal() != "t" {
		t.Errorf("%+v, %v", got, err)
	}
}
