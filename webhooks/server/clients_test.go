package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// authority issues client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "clients"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// file writes a's certificate.
func (a *authority) file(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, a.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// issue returns a certificate for a client.
func (a *authority) issue(t *testing.T, change ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ask asks the webhook with a client certificate and returns the HTTP status, with the
// message where that is not 200.
func (r *running) ask(t *testing.T, c *http.Client) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(goodReview))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK && (status.Kind != "Status" || int(status.Code) != resp.StatusCode || status.Reason == "") {
		t.Errorf("HTTP %d with %+v", resp.StatusCode, status)
	}
	return resp.StatusCode, status.Message
}

func with(cert *tls.Certificate) func(*http.Transport) {
	return func(tr *http.Transport) {
		tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert == nil {
				return &tls.Certificate{}, nil
			}
			return cert, nil
		}
	}
}

func TestClientCertificates(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	file := ca.file(t)
	any := start(t, allow, func(o *server.Options) { o.ClientCAFile = file })
	named := start(t, allow, func(o *server.Options) { o.ClientCAFile, o.ClientNames = file, []string{"other", "api.example.com"} })
	for name, tt := range map[string]struct {
		server  *running
		cert    *tls.Certificate
		status  int
		message string
		reason  string
	}{
		"none":      {any, nil, 401, "give the API server one, by --admission-control-config-file", "no_certificate"},
		"good":      {any, ca.issue(t), 200, "", ""},
		"stranger":  {any, stranger.issue(t), 403, `the client certificate "kube-apiserver" is not accepted: x509: certificate signed by unknown authority`, "untrusted"},
		"expired":   {any, ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), 403, "has expired", "expired"},
		"of server": {any, ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), 403, "incompatible key usage", "untrusted"},
		"other name": {named, ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"a.example.com"} }), 403,
			"the client certificate's names (kube-apiserver, a.example.com) are not among --webhook-client-allowed-names", "name_not_allowed"},
		"common name": {named, ca.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "other" }), 200, "", ""},
		"DNS name":    {named, ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"api.example.com"} }), 200, "", ""},
		"stranger of the right name": {named, stranger.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "other" }), 403,
			"unknown authority", "untrusted"},
	} {
		t.Run(name, func(t *testing.T) {
			before := tt.server.value(t, "isthmus_webhook_clients_rejected_total", tt.reason)
			c := tt.server.client(t, with(tt.cert))
			for range 2 { // the verdict is the connection's
				status, message := tt.server.ask(t, c)
				if status != tt.status || !strings.Contains(message, tt.message) || strings.Contains(message, "\n") {
					t.Errorf("HTTP %d %q, want %d %q", status, message, tt.status, tt.message)
				}
			}
			if rejected := tt.server.value(t, "isthmus_webhook_clients_rejected_total", tt.reason) - before; tt.reason != "" && rejected != 2 {
				t.Errorf("%v rejections counted, want 2", rejected)
			}
			if body, code := get(t, c, tt.server.url+"/readyz"); code != http.StatusOK {
				t.Errorf("/readyz: %d %s", code, body)
			}
		})
	}
}

// The verdict on a connection that stays changes with the file.
func TestClientCAIsReadAgain(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	file := first.file(t)
	now := clocktesting.NewFakeClock(time.Now())
	r := start(t, allow, func(o *server.Options) { o.ClientCAFile, o.Clock = file, now })
	old, updated := r.client(t, with(first.issue(t))), r.client(t, with(second.issue(t)))
	if a, _ := r.ask(t, old); a != http.StatusOK {
		t.Fatalf("the first authority's client gets %d", a)
	}
	if a, _ := r.ask(t, updated); a != http.StatusForbidden {
		t.Fatalf("the second authority's client gets %d before the file changes", a)
	}
	if err := os.WriteFile(file, second.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	now.Step(11 * time.Second)
	a, _ := r.ask(t, old)
	b, _ := r.ask(t, updated)
	if a != http.StatusForbidden || b != http.StatusOK {
		t.Errorf("clients of the old and the new authority get %d and %d", a, b)
	}
	// A file that is gone shuts nobody out, and certificates that end do.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now.Step(11 * time.Second)
	if a, _ := r.ask(t, updated); a != http.StatusOK {
		t.Errorf("without the file, a client of the last authority gets %d", a)
	}
	now.Step(2 * time.Hour)
	if a, _ := r.ask(t, updated); a != http.StatusForbidden {
		t.Errorf("a client whose certificate has ended since gets %d", a)
	}
}

func TestClientCAMustBeThere(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"/does/not/exist": "--webhook-client-ca-file: read certificates: open /does/not/exist", empty: "holds no certificate"} {
		o := server.NewOptions()
		o.ClientCAFile = file
		checkNew(t, o, want)
	}
}
