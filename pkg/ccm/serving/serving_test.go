package serving

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

func TestSelfSignedIsReplacedInTime(t *testing.T) {
	now := time.Now()
	s := &selfSigned{names: selfSignedNames(net.IPv4(192, 0, 2, 1)), now: func() time.Time { return now }}
	get := func() *tls.Certificate {
		t.Helper()
		c, err := s.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if get() != first {
		t.Error("a new certificate for each connection")
	}
	leaf, err := x509.ParseCertificate(first.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "192.0.2.1"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	now = leaf.NotAfter.Add(-selfSignedMargin / 2)
	if get() == first {
		t.Error("the certificate is kept until its end")
	}
}

func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := certificateFiles(options.Serving{CertDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file is %v, %v; want mode 0600", info.Mode(), err)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Error(err)
	}
	if _, _, err := certificateFiles(options.Serving{CertDir: dir}); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(cert); err != nil || string(again) != string(made) {
		t.Errorf("the certificate that is there was replaced (%v)", err)
	}
	if cert, _, err := certificateFiles(options.Serving{}); cert != "" || err != nil {
		t.Errorf("without a directory: %q, %v", cert, err)
	}
	if cert, _, err := certificateFiles(options.Serving{CertDir: dir, CertFile: "/x", KeyFile: "/y"}); cert != "/x" || err != nil {
		t.Errorf("--tls-cert-file does not win: %q, %v", cert, err)
	}
	if _, _, err := tlsConfig(options.Serving{CertFile: filepath.Join(dir, "none"), KeyFile: key}); err == nil {
		t.Error("a certificate that does not exist is accepted")
	}
}
