package vsphere_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// sharing is a service of shared sessions, whose certificate is one of the system's: for that it is there before all tests. It gives
// the ticket that it got.
var (
	sharing = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"token": %q}`, ticket.Load()) }))
	ticket  atomic.Value
)

func TestMain(m *testing.M) { os.Exit(withSharing(m)) }

func withSharing(m *testing.M) int {
	sharing.StartTLS()
	defer sharing.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sharing.Certificate().Raw}), 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		panic(err)
	}
	return m.Run()
}

func newVCenter(t *testing.T) *sim.VCenter {
	t.Helper()
	v, err := sim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// newProvider is the provider by a vsphere.conf.
func newProvider(t *testing.T, conf string, o cloud.Options) (p *cloud.Provider, warnings []string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return vsphere.New(t.Context(), file, o)
}

// provide is newProvider, which runs until end is called.
func provide(t *testing.T, conf string, o cloud.Options) (p *cloud.Provider, end func()) {
	t.Helper()
	p, warnings, err := newProvider(t, conf, o)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %q", err, warnings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// certificate is one with its key, as a vsphere.conf has them in place of user and password.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "isthmus"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("user: %q\n  password: %q", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// useAll has the provider do all that it does.
func useAll(t *testing.T, v *sim.VCenter, conf string) {
	t.Helper()
	p, end := provide(t, conf, cloud.Options{})
	defer end()
	ctx := t.Context()
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var refs []cloud.InstanceRef
	for n := range 6 { // so many are read as a whole
		m, err := v.MakeMachine(ctx, fmt.Sprint("node-", n, "-", len(conf)))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, cloud.InstanceRef{NodeName: m.Name, ProviderID: "vsphere://" + m.UUID}, cloud.InstanceRef{NodeName: m.Name, SystemUUID: m.UUID},
			cloud.InstanceRef{NodeName: m.Name}, cloud.InstanceRef{NodeName: m.IPv4.String()})
	}
	for _, some := range [][]cloud.InstanceRef{refs[:4], refs} {
		for _, r := range p.Instances.Find(ctx, some) {
			if r.Err != nil || r.Value.Zone != sim.Zone {
				t.Errorf("%+v, %v", r.Value, r.Err)
			}
		}
	}
	gone := cloud.InstanceRef{NodeName: "gone", ProviderID: "vsphere://0b1ee9c8-44ee-4a4f-9a0d-8d6d1d7b6a11"}
	if _, err := p.Instances.Get(ctx, gone); !cloud.IsNotFound(err) {
		t.Error(err)
	}
	id, err := v.MakeVolume(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Volumes.Find(ctx, []cloud.VolumeRef{{ID: id}, {ID: "[LocalDS_0] kubevols/a.vmdk"}}) {
		if r.Err != nil && cloud.KindOf(r.Err) != cloud.KindInvalid { // each datacenter has a datastore of that name
			t.Error(r.Err)
		}
	}
	if _, err := p.Volumes.Get(ctx, cloud.VolumeRef{ID: gone.ProviderID[len("vsphere://"):]}); !cloud.IsNotFound(err) {
		t.Error(err)
	}
}

// share logs in by a copy of a session that somebody else keeps.
func share(t *testing.T, v *sim.VCenter) {
	t.Helper()
	got, err := v.CloneTicket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket.Store(got)
	folder := t.TempDir()
	for key, value := range map[string]string{"url": sharing.URL, "token": "token"} {
		if err := os.WriteFile(filepath.Join(folder, v.Host()+".vc-session-manager-"+key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, end := provide(t, v.ConfigBy("secretsDirectory: "+folder), cloud.Options{})
	defer end()
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// guideTable are the methods in the guide's table, each with its privilege, and the privileges of the role.
func guideTable(t *testing.T) (methods map[string]string, role []string) {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/guides/install-vsphere.md")
	if err != nil {
		t.Fatal(err)
	}
	methods = map[string]string{}
	for line := range strings.Lines(string(guide)) {
		cells := strings.Split(line, "|")
		if privileges := regexp.MustCompile("`govc role.create isthmus ([A-Za-z. ]+)`").FindStringSubmatch("`" + strings.TrimSpace(line) + "`"); privileges != nil {
			role = strings.Fields(privileges[1])
		}
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			methods[m[1]] = strings.TrimSpace(cells[2])
		}
	}
	return methods, role
}

// own are what changes nothing but the caller's own session, or begins and ends it.
var own = []string{"Login", "LoginByToken", "CloneSession", "Logout", "POST /session", "DELETE /session", "RequestSecurityToken", "CreateContainerView"}

// TestRoleIsTheSmallest: the guide says of each call that the vCenter gets which privilege it needs, and of no other call; the role that
// it shows has these privileges; and nothing is called that changes anything.
func TestRoleIsTheSmallest(t *testing.T) {
	v := newVCenter(t)
	v.SetPage(3)
	useAll(t, v, v.ConfigIPv4())
	useAll(t, v, v.ConfigBy(certificate(t)))
	share(t, v)
	methods, role := guideTable(t)
	called := slices.Sorted(maps.Keys(v.Methods()))
	if diff := cmp.Diff(called, slices.Sorted(maps.Keys(methods))); diff != "" {
		t.Errorf("docs/guides/install-vsphere.md, what it calls (-called +there):\n%s", diff)
	}
	needed := map[string]bool{}
	for _, privilege := range methods {
		needed[privilege] = true
	}
	delete(needed, "none")
	slices.Sort(role)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(needed)), role); diff != "" {
		t.Errorf("docs/guides/install-vsphere.md, the role (-needed by the calls +there):\n%s", diff)
	}
	reads := regexp.MustCompile(`^(Retrieve|ContinueRetrieve|FindAll|QueryOptions$|CnsQuery|List$|GET |POST /tagging/\S+ list-)`)
	for _, m := range called {
		if !reads.MatchString(m) && !slices.Contains(own, m) {
			t.Errorf("%s is called, which may change something", m)
		}
	}
}
