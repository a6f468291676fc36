package certs_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// snapshot is every file of dir with its content and mode.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = info.Mode().String() + "\n" + string(data)
	}
	return files
}

// TestFiles: a directory's files are used or refused, and never written.
func TestFiles(t *testing.T) {
	ca := certstest.NewCA(t)
	crt, key := ca.Issue(t, time.Now().Add(day))
	expired, expiredKey := ca.Issue(t, time.Now().Add(-day))
	_, otherKey := ca.Issue(t, time.Now().Add(day))
	tests := map[string]struct {
		files   map[string][]byte
		want    string // error of LoadFiles
		wantErr string // of Files.Err
	}{
		"pair":           {files: map[string][]byte{"tls.crt": crt, "tls.key": key}},
		"pair with CA":   {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": ca.PEM}},
		"expired":        {files: map[string][]byte{"tls.crt": expired, "tls.key": expiredKey}, wantErr: "the certificate expired at"},
		"nothing":        {want: "tls.crt: no such file or directory; put tls.crt and tls.key there, or choose --webhook-cert-source=self-managed"},
		"no key":         {files: map[string][]byte{"tls.crt": crt}, want: "tls.key: no such file or directory"},
		"no certificate": {files: map[string][]byte{"tls.key": key}, want: "tls.crt: no such file or directory"},
		"other key":      {files: map[string][]byte{"tls.crt": crt, "tls.key": otherKey}, want: "do not make a pair"},
		"not PEM":        {files: map[string][]byte{"tls.crt": []byte("x"), "tls.key": key}, want: "tls.crt: no certificate in it"},
		"key not PEM":    {files: map[string][]byte{"tls.crt": crt, "tls.key": []byte("s3cret")}, want: "tls.key: no private key in it"},
		"CA not PEM":     {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": []byte("x")}, want: "ca.crt: no certificate in it"},
		"key as CA":      {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": key}, want: `ca.crt: it has a PEM block "EC PRIVATE KEY"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range tt.files {
				write(t, dir, file, data)
			}
			before := snapshot(t, dir)
			s, err := certs.LoadFiles(t.Context(), certs.FilesOptions{Dir: dir})
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Errorf("files changed:\n%s", diff)
			}
			if (err == nil) != (tt.want == "") || (err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir))) {
				t.Fatalf("got error %v, want %q with the path", err, tt.want)
			}
			if err != nil {
				if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("error %q has several lines or a secret", err)
				}
				return
			}
			if err := s.Err(); (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("Err is %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// TestFilesRun follows files that change: good ones are taken, bad ones are not.
func TestFilesRun(t *testing.T) {
	dir, ca := t.TempDir(), certstest.NewCA(t)
	ca.WriteDir(t, dir)
	s, run := startFiles(t, certs.FilesOptions{Dir: dir})
	defer run()
	before := s.NotAfter()
	write(t, dir, "tls.crt", []byte("half a certifi"))
	<-time.After(50 * time.Millisecond)
	if !s.NotAfter().Equal(before) || s.Err() != nil {
		t.Errorf("a broken file was taken: %v", s.Err())
	}
	for _, name := range []string{"tls.crt", "tls.key"} { // as `rm tls.*; cp …` does
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(50 * time.Millisecond)
	if !s.NotAfter().Equal(before) || s.Err() != nil {
		t.Errorf("files that were taken away ended the service: %v", s.Err())
	}
	crt, key := ca.Issue(t, time.Now().Add(2*day))
	write(t, dir, "tls.crt", crt)
	write(t, dir, "tls.key", key)
	eventually.True(t, "the new certificate is served", func() bool { return !s.NotAfter().Equal(before) })
}

// TestFilesNewCA: where somebody passes CABundle on, a new CA is announced before a
// certificate of it is served, and the old one stays while its certificate is valid.
func TestFilesNewCA(t *testing.T) {
	dir, c := t.TempDir(), &clock{now: time.Now()}
	oldCA, newCA := certstest.NewCA(t), certstest.NewCA(t)
	oldCA.WriteDir(t, dir)
	s, run := startFiles(t, certs.FilesOptions{Dir: dir, Overlap: time.Minute, Now: c.Now})
	defer run()
	first := s.NotAfter()
	oldBundle := s.CABundle()
	newCA.WriteDir(t, dir)
	eventually.True(t, "the new CA is announced", func() bool { return !bytes.Equal(s.CABundle(), oldBundle) })
	if holds(t, s, newCA.PEM, c.Now()) || !holds(t, s, oldBundle, c.Now()) {
		t.Error("a certificate was served that clients cannot trust yet")
	}
	announced := s.CABundle()
	c.add(59 * time.Second)
	<-time.After(50 * time.Millisecond)
	if !holds(t, s, oldCA.PEM, c.Now()) {
		t.Error("the old certificate went too early")
	}
	c.add(2 * time.Second)
	eventually.True(t, "the new certificate is served", func() bool { return holds(t, s, newCA.PEM, c.Now()) })
	if !bytes.Equal(s.CABundle(), announced) {
		t.Error("the old CA went while its certificate is valid")
	}
	c.add(first.Sub(c.Now()) + time.Second)
	eventually.True(t, "the old CA goes", func() bool { return bytes.Equal(s.CABundle(), newCA.PEM) })
}

// TestFilesNotValidNow: a certificate that is expired, or that another clock has issued for
// later, does not replace one that is valid; it does once it is valid itself.
func TestFilesNotValidNow(t *testing.T) {
	dir, c, ca := t.TempDir(), &clock{now: time.Now()}, certstest.NewCA(t)
	ca.WriteDir(t, dir)
	s, run := startFiles(t, certs.FilesOptions{Dir: dir, Overlap: time.Minute, Now: c.Now})
	defer run()
	before := s.NotAfter()
	put := func(notAfter time.Time) {
		crt, key := ca.Issue(t, notAfter) // for a year
		write(t, dir, "tls.crt", crt)
		write(t, dir, "tls.key", key)
		<-time.After(50 * time.Millisecond)
	}
	put(c.Now().Add(-time.Minute))
	if err := s.Err(); err != nil || !s.NotAfter().Equal(before) {
		t.Errorf("an expired certificate replaced a valid one: %v", err)
	}
	put(c.Now().Add(365*day + 5*time.Second))
	if err := s.Err(); err != nil || !s.NotAfter().Equal(before) {
		t.Errorf("a certificate that is not valid yet replaced a valid one: %v", err)
	}
	c.add(6 * time.Second)
	eventually.True(t, "it is served once it is valid", func() bool { return s.NotAfter().After(before) && s.Err() == nil })
}

// startFiles loads and runs a Source; end stops it and waits.
func startFiles(t *testing.T, o certs.FilesOptions) (s *certs.Files, end func()) {
	t.Helper()
	o.Interval = 5 * time.Millisecond
	s, err := certs.LoadFiles(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s, run(t, s)
}

func run(t *testing.T, s certs.Source) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// holds reports whether a client that trusts bundle can connect to s.
func holds(t *testing.T, s certs.Source, bundle []byte, now time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	cert, err := s.GetCertificate(nil)
	if err != nil {
		return false
	}
	for _, name := range certstest.Hosts() {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
}
