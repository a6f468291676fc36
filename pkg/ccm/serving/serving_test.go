package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/klog/v2"

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

// slow is a client that reads nothing, unless it is given up.
type slow struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (s *slow) SetWriteDeadline(until time.Time) error {
	s.until = until
	return nil
}

func (s *slow) Write(text []byte) (int, error) {
	if s.until.IsZero() {
		return 0, errors.New("this would block for ever")
	}
	return s.ResponseRecorder.Write(text)
}

// Who does not read an answer does not keep others from theirs for ever: of metrics and of the status so many are answered at a time.
func TestSlowClientsAreGivenUp(t *testing.T) {
	o := &options.Options{FlagValues: map[string]string{"v": "2"}}
	o.Component.Generic.Debugging.EnableProfiling = true
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "status") })
	mux, err := secureMux(o, page, []*Checks{NewChecks("healthz", klog.Background())})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/configz", "/flagz", "/healthz", "/metrics", "/status", "/statusz"} {
		w := &slow{ResponseRecorder: httptest.NewRecorder()}
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK || w.Body.Len() == 0 || time.Until(w.until) > 2*writeTimeout {
			t.Errorf("%s: %d, %d bytes, until %s", path, w.Code, w.Body.Len(), w.until)
		}
	}
	w := &slow{ResponseRecorder: httptest.NewRecorder(), until: time.Now()} // of the page that this connection had before
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/symbol", http.NoBody))
	if !w.until.IsZero() {
		t.Errorf("a profile, which takes as long as asked for, ends at %s", w.until)
	}
}
