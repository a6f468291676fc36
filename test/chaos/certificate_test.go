package chaos

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// authority is a CA that issues certificates for the Service.
type authority struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	bundle []byte
	serial int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, serial: 1}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-3 * time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.bundle = encode("CERTIFICATE", der)
	return a
}

// keyPEM is its private key.
func (a *authority) keyPEM() []byte {
	a.t.Helper()
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return encode("EC PRIVATE KEY", der)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue returns the files of a Secret as cert-manager fills it: a new key and certificate.
func (a *authority) issue() map[string][]byte {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), DNSNames: []string{"isthmus-webhook.kube-system.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": encode("CERTIFICATE", der), "tls.key": encode("PRIVATE KEY", keyDER), "ca.crt": a.bundle}
}

// mount is a Secret as the kubelet mounts it: the files are links through ..data, which is
// itself a link that is replaced at once when the Secret changes.
type mount struct {
	t     testing.TB
	dir   string
	count int
}

func newMount(t testing.TB, files map[string][]byte) *mount {
	t.Helper()
	m := &mount{t: t, dir: t.TempDir()}
	m.update(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// update replaces the Secret's files.
func (m *mount) update(files map[string][]byte) {
	m.t.Helper()
	m.count++
	old, _ := os.Readlink(filepath.Join(m.dir, "..data")) // none at first
	name := "..version_" + strconv.Itoa(m.count)
	must := func(err error) {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(m.dir, name), 0o700))
	for file, data := range files {
		must(os.WriteFile(filepath.Join(m.dir, name, file), bytes.Clone(data), 0o600))
	}
	must(os.Symlink(name, filepath.Join(m.dir, "..data_tmp")))
	must(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	if old != "" {
		must(os.RemoveAll(filepath.Join(m.dir, old)))
	}
}
