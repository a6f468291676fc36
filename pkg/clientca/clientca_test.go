package clientca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

func authority(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// A file of authorities that breaks while it is replaced shuts nobody out, and one that is
// replaced counts.
func TestFile(t *testing.T) {
	first := authority(t, "first")
	second := authority(t, "second")
	file, now := filepath.Join(t.TempDir(), "ca.crt"), time.Now()
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lookEvery)
	}
	pemOf := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	f := &File{path: file}
	trusts := func(c *x509.Certificate, wantError bool) {
		t.Helper()
		pool, err := f.Roots(now)
		want := x509.NewCertPool()
		want.AddCert(c)
		if (err != nil) != wantError || !pool.Equal(want) {
			t.Errorf("want only %s and an error %t, got error %v", c.Subject.CommonName, wantError, err)
		}
	}
	write(pemOf(first))
	trusts(first, false)
	write([]byte("half a fi"))
	trusts(first, true)
	trusts(first, false) // said once
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookEvery)
	trusts(first, true)
	write(pemOf(second))
	trusts(second, false)
}
