package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// apiServer answers reviews as an API server does that knows one token and lets its user
// read /metrics only.
func apiServer(down *bool) (*fake.Clientset, *int) {
	client, asked := fake.NewClientset(), 0
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		if *down {
			return true, nil, errors.New("API server is down")
		}
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if r.Spec.Token == "good" {
			r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "prometheus", Groups: []string{"g"}}}
		}
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		n := r.Spec.NonResourceAttributes
		r.Status.Allowed = n != nil && n.Verb == "get" && n.Path == "/metrics" && (r.Spec.User == "prometheus" || slices.Contains(r.Spec.Groups, "admins"))
		return true, r, nil
	})
	return client, &asked
}

func testGuard(t *testing.T, change func(*options.Auth)) (http.Handler, *int, *bool) {
	t.Helper()
	o := options.Auth{TokenTTL: time.Minute, AllowTTL: time.Minute, DenyTTL: time.Minute, RequestTimeout: time.Second,
		AlwaysAllowPaths: []string{"/healthz", "/open/*"}}
	if change != nil {
		change(&o)
	}
	down := false
	client, asked := apiServer(&down)
	g, err := newGuard(o, client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		t.Fatal(err)
	}
	return g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })), asked, &down
}

func ask(h http.Handler, method, path, authorization string, certs ...*x509.Certificate) int {
	r := httptest.NewRequestWithContext(context.Background(), method, "https://x"+path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	if len(certs) > 0 {
		r.TLS = &tls.ConnectionState{PeerCertificates: certs}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestGuard(t *testing.T) {
	h, asked, down := testGuard(t, nil)
	for _, test := range []struct {
		method, path, authorization string
		want                        int
	}{
		{"GET", "/healthz", "", 418},
		{"GET", "/open/anything", "", 418},
		{"GET", "/healthz/", "", 401},
		{"GET", "/metrics", "", 401},
		{"GET", "/metrics", "Basic good", 401},
		{"GET", "/metrics", "Bearer ", 401},
		{"GET", "/metrics", "Bearer bad", 401},
		{"GET", "/metrics", "Bearer good", 418},
		{"GET", "/metrics", "bearer good", 418},
		{"POST", "/metrics", "Bearer good", 403},
		{"GET", "/configz", "Bearer good", 403},
		{"GET", "/status", "", 401},
		{"GET", "/status", "Bearer good", 403},
	} {
		if got := ask(h, test.method, test.path, test.authorization); got != test.want {
			t.Errorf("%s %s with %q: got %d, want %d", test.method, test.path, test.authorization, got, test.want)
		}
	}
	before := *asked
	for range 10 {
		ask(h, "GET", "/metrics", "Bearer good")
		ask(h, "GET", "/metrics", "Bearer bad")
		ask(h, "GET", "/configz", "Bearer good")
	}
	if *asked != before {
		t.Errorf("the API server was asked %d times more for answers that are known", *asked-before)
	}
	*down = true
	if got := ask(h, "GET", "/metrics", "Bearer other"); got != http.StatusInternalServerError {
		t.Errorf("API server down: got %d, want 500", got)
	}
}

// Strangers with random tokens, and users who may read nothing, fill what they can: the API server can be
// away meanwhile, and the one who may read something still does.
func TestGuardRemembersTheGoodApart(t *testing.T) {
	h, asked, down := testGuard(t, nil)
	if got := ask(h, "GET", "/metrics", "Bearer good"); got != 418 {
		t.Fatalf("got %d", got)
	}
	for i := range 2 * cacheSize {
		if got := ask(h, "GET", fmt.Sprintf("/debug/%d", i), "Bearer good"); got != 403 {
			t.Fatalf("a random path: got %d", got)
		}
	}
	for i := range 2 * cacheSize { // after what uses the good one
		if got := ask(h, "GET", "/metrics", fmt.Sprintf("Bearer random-%d", i)); got != 401 {
			t.Fatalf("a random token: got %d", got)
		}
	}
	*down = true
	before := *asked
	if got := ask(h, "GET", "/metrics", "Bearer good"); got != 418 || *asked != before {
		t.Errorf("the good token, while the API server is away: got %d, and the API server was asked %d times", got, *asked-before)
	}
}

func testCA(t *testing.T, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	return signed(t, template, template, key, key), key
}

func signed(t *testing.T, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestGuardTakesClientCertificates(t *testing.T) {
	ca, caKey := testCA(t, "ca")
	stranger, strangerKey := testCA(t, "stranger")
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	leaf := func(by *x509.Certificate, byKey *ecdsa.PrivateKey, change func(*x509.Certificate)) *x509.Certificate {
		c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "root", Organization: []string{"admins"}},
			NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if change != nil {
			change(c)
		}
		return signed(t, c, by, caKey, byKey)
	}
	h, _, _ := testGuard(t, func(o *options.Auth) { o.ClientCAFile = file })
	for _, test := range []struct {
		name string
		cert *x509.Certificate
		want int
	}{
		{"good", leaf(ca, caKey, nil), 418},
		{"of another authority", leaf(stranger, strangerKey, nil), 401},
		{"expired", leaf(ca, caKey, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), 401},
		{"for servers", leaf(ca, caKey, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), 401},
		{"without a name", leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.CommonName = "" }), 401},
		{"of somebody without the right", leaf(ca, caKey, func(c *x509.Certificate) { c.Subject.Organization = nil }), 403},
	} {
		if got := ask(h, "GET", "/metrics", "", test.cert); got != test.want {
			t.Errorf("certificate %s: got %d, want %d", test.name, got, test.want)
		}
	}
	without, _, _ := testGuard(t, nil)
	if got := ask(without, "GET", "/metrics", "", leaf(ca, caKey, nil)); got != 401 {
		t.Errorf("without --client-ca-file: got %d, want 401", got)
	}
}

// A decision is one user's with all that the API server knows of them, for one path and verb.
func TestGuardSharesNoDecision(t *testing.T) {
	client := fake.NewClientset()
	asked := 0
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		r.Status.Allowed = true
		return true, r, nil
	})
	g, err := newGuard(options.Auth{AllowTTL: time.Minute, DenyTTL: time.Minute}, client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		t.Fatal(err)
	}
	extra := func(key string, values ...string) authenticationv1.UserInfo {
		return authenticationv1.UserInfo{Username: "u", Extra: map[string]authenticationv1.ExtraValue{key: values}}
	}
	questions := []struct {
		user       authenticationv1.UserInfo
		verb, path string
	}{
		{authenticationv1.UserInfo{Username: "u"}, "get", "/metrics"},
		{authenticationv1.UserInfo{Username: "u"}, "get", "/metrics/"},
		{authenticationv1.UserInfo{Username: "u"}, "post", "/metrics"},
		{authenticationv1.UserInfo{Username: "u", UID: "1"}, "get", "/metrics"},
		{authenticationv1.UserInfo{Username: "u", Groups: []string{"a", "b"}}, "get", "/metrics"},
		{authenticationv1.UserInfo{Username: "u", Groups: []string{"a b"}}, "get", "/metrics"},
		{authenticationv1.UserInfo{Username: "u", Groups: []string{`a" "b`}}, "get", "/metrics"},
		{extra("k", "a", "b"), "get", "/metrics"},
		{extra("k", "a b"), "get", "/metrics"},
		{extra("k", "a] l:[b"), "get", "/metrics"},
		{authenticationv1.UserInfo{Username: "u", Extra: map[string]authenticationv1.ExtraValue{"k": {"a"}, "l": {"b"}}}, "get", "/metrics"},
	}
	for range 2 {
		for _, q := range questions {
			if allowed, err := g.authorize(t.Context(), &q.user, q.verb, q.path); err != nil || !allowed {
				t.Fatalf("%+v: got %t, %v", q, allowed, err)
			}
		}
	}
	if asked != len(questions) {
		t.Errorf("the API server was asked %d times about %d different questions", asked, len(questions))
	}
}
