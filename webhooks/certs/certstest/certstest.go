// Package certstest makes certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
)

// Hosts are whom the certificates are for: the default Service, and loopback.
func Hosts() []string {
	return append(webhooks.DefaultService().DNSNames(), "localhost", "127.0.0.1", "::1")
}

// Source returns a Source of files that are written into dir, with a CA of their own.
func Source(t testing.TB, dir string) certs.Source {
	t.Helper()
	NewCA(t).WriteDir(t, dir)
	s, err := certs.LoadFiles(t.Context(), certs.FilesOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// CA issues certificates.
type CA struct {
	// PEM is its certificate.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a CA that is valid for ten years.
func NewCA(t testing.TB) *CA { return NewCAUntil(t, time.Now().AddDate(10, 0, 0)) }

// NewCAUntil makes a CA that is valid until end.
func NewCAUntil(t testing.TB, end time.Time) *CA {
	t.Helper()
	ca := &CA{key: newKey(t)}
	ca.cert = &x509.Certificate{
		Subject:   pkix.Name{CommonName: "test CA " + rand.Text()[:8]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.PEM = ca.sign(t, ca.cert, ca.key)
	block, _ := pem.Decode(ca.PEM)
	var err error
	if ca.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return ca
}

// Issue returns tls.crt and tls.key of a certificate for Hosts, valid from an hour ago until
// notAfter.
func (ca *CA) Issue(t testing.TB, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, NotBefore: notAfter.Add(-365 * 24 * time.Hour), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range Hosts() {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	k := newKey(t)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return ca.sign(t, template, k), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// WriteDir writes ca.crt, tls.crt and tls.key into dir, valid for a month.
func (ca *CA) WriteDir(t testing.TB, dir string) {
	t.Helper()
	cert, key := ca.Issue(t, time.Now().AddDate(0, 1, 0))
	for name, data := range map[string][]byte{"ca.crt": ca.PEM, "tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns the certificate of key.
func (ca *CA) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PEM encodes a certificate.
func PEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
