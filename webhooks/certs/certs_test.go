package certs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/webhooks/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

var names = []string{"webhook.kube-system.svc", "localhost"}

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func load(t *testing.T, dir string, c *clock) *certs.Files {
	t.Helper()
	s, err := certs.LoadFiles(options(dir, c))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func options(dir string, c *clock) certs.FilesOptions {
	o := certs.FilesOptions{Dir: dir, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, Interval: 5 * time.Millisecond}
	if c != nil {
		o.Now = c.Now
	}
	return o
}

// verify holds the served certificate to the CA bundle, at the clock's time.
func verify(t *testing.T, s *certs.Files, now time.Time) *x509.Certificate {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CABundle()) {
		t.Fatal("the CA bundle has no certificate")
	}
	cert, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "127.0.0.1") {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("certificate does not hold for %s: %v", name, err)
		}
	}
	return cert.Leaf
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

func TestGenerate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	s := load(t, dir, nil)
	verify(t, s, time.Now())
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	if left := time.Until(s.NotAfter()); left < 360*day || left > 366*day {
		t.Errorf("valid for %s, want about a year", left)
	}
	modes := map[string]string{}
	for name, content := range snapshot(t, dir) {
		modes[name], _, _ = strings.Cut(content, "\n")
	}
	want := map[string]string{"tls.crt": "-rw-r--r--", "tls.key": "-rw-------", "ca.crt": "-rw-r--r--", "isthmus-ca.key": "-rw-------"}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

// TestKept: what is valid is not issued anew at the next start.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	load(t, dir, nil)
	before := snapshot(t, dir)
	load(t, dir, nil)
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("files changed:\n%s", diff)
	}
}

// TestRenewal: by the same CA before expiry, and by a new CA before the CA's own.
func TestRenewal(t *testing.T) {
	dir, c := t.TempDir(), &clock{time.Now()}
	s := load(t, dir, c)
	ca, first := string(s.CABundle()), s.NotAfter()

	c.now = c.now.Add(200 * day)
	if s = load(t, dir, c); !s.NotAfter().Equal(first) {
		t.Error("issued anew long before expiry")
	}
	c.now = c.now.Add(60 * day)
	if s = load(t, dir, c); !s.NotAfter().After(first) || string(s.CABundle()) != ca {
		t.Errorf("a third of its life before expiry: expires %s after %s, same CA: %v", s.NotAfter(), first, string(s.CABundle()) == ca)
	}
	verify(t, s, c.now)
	c.now = c.now.Add(8 * 365 * day)
	if s = load(t, dir, c); string(s.CABundle()) == ca {
		t.Error("the CA was kept until it expires before what it issues")
	}
	verify(t, s, c.now)
}

func TestOtherNames(t *testing.T) {
	dir := t.TempDir()
	ca := string(load(t, dir, nil).CABundle())
	o := options(dir, nil)
	o.DNSNames = append([]string{"other.kube-system.svc"}, names...)
	s, err := certs.LoadFiles(o)
	if err != nil {
		t.Fatal(err)
	}
	if leaf := verify(t, s, time.Now()); leaf.VerifyHostname("other.kube-system.svc") != nil || string(s.CABundle()) != ca {
		t.Errorf("certificate is for %v, same CA: %v", leaf.DNSNames, string(s.CABundle()) == ca)
	}
}

// TestCrash: wherever writing was cut off, the next start repairs it.
func TestCrash(t *testing.T) {
	for _, missing := range [][]string{
		{"tls.key"}, {"tls.crt", "tls.key"}, {"tls.crt", "tls.key", "ca.crt"},
	} {
		t.Run(strings.Join(missing, " "), func(t *testing.T) {
			dir := t.TempDir()
			load(t, dir, nil)
			for _, name := range missing {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			verify(t, load(t, dir, nil), time.Now())
		})
	}
	t.Run("renewal between certificate and key", func(t *testing.T) {
		dir, c := t.TempDir(), &clock{time.Now()}
		load(t, dir, c)
		old, err := os.ReadFile(filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(300 * day)
		load(t, dir, c)
		write(t, dir, "tls.key", old, 0o600)
		verify(t, load(t, dir, c), c.now)
	})
}

// TestUsersFiles: what is not ours is used or refused, and never written.
func TestUsersFiles(t *testing.T) {
	now := time.Now()
	crt, key := userPair(t, now.Add(-day), now.Add(day))
	expired, expiredKey := userPair(t, now.Add(-2*day), now.Add(-day))
	_, otherKey := userPair(t, now.Add(-day), now.Add(day))
	tests := map[string]struct {
		files   map[string][]byte
		ours    bool   // over a directory that already has ours
		want    string // error of LoadFiles
		wantErr string // of Files.Err
	}{
		"pair":            {files: map[string][]byte{"tls.crt": crt, "tls.key": key}},
		"pair with CA":    {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": crt}},
		"in ours' place":  {files: map[string][]byte{"tls.crt": crt, "tls.key": key}, ours: true},
		"all in its":      {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": crt}, ours: true},
		"expired":         {files: map[string][]byte{"tls.crt": expired, "tls.key": expiredKey}, wantErr: "the certificate expired at"},
		"no key":          {files: map[string][]byte{"tls.crt": crt}, want: "tls.key: no such file or directory; put tls.crt and tls.key there"},
		"no certificate":  {files: map[string][]byte{"tls.key": key}, want: "tls.crt: no such file or directory"},
		"only a CA":       {files: map[string][]byte{"ca.crt": crt}, want: "tls.crt: no such file or directory"},
		"other key":       {files: map[string][]byte{"tls.crt": crt, "tls.key": otherKey}, want: "do not make a pair"},
		"other in ours":   {files: map[string][]byte{"tls.crt": crt}, ours: true, want: "do not make a pair"},
		"not PEM":         {files: map[string][]byte{"tls.crt": []byte("x"), "tls.key": key}, want: "tls.crt: no certificate in it"},
		"not PEM in ours": {files: map[string][]byte{"tls.crt": []byte("x")}, ours: true, want: "tls.crt: no certificate in it"},
		"key not PEM":     {files: map[string][]byte{"tls.crt": crt, "tls.key": []byte("s3cret")}, want: "tls.key: no private key in it"},
		"CA not PEM":      {files: map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": []byte("x")}, want: "ca.crt: no certificate in it"},
		"key of ours bad": {files: map[string][]byte{"isthmus-ca.key": []byte("x")}, ours: true, want: "isthmus-ca.key: no private key in it; remove it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.ours {
				load(t, dir, nil)
			}
			for file, data := range tt.files {
				write(t, dir, file, data, 0o600)
			}
			before := snapshot(t, dir)
			s, err := certs.LoadFiles(options(dir, nil))
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

func TestNothingToGenerateFor(t *testing.T) {
	_, err := certs.LoadFiles(certs.FilesOptions{Dir: t.TempDir()})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the files do not exist", err)
	}
}

// TestUnusableDirectory: a file in the directory's place stands for whatever cannot be written.
func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", nil, 0o600)
	if _, err := certs.LoadFiles(options(file, nil)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names %s", err, file)
	}
}

// TestRun follows files that change: good ones are taken, bad ones are not.
func TestRun(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	crt, key := userPair(t, now.Add(-day), now.Add(day))
	write(t, dir, "tls.crt", crt, 0o644)
	write(t, dir, "tls.key", key, 0o600)
	s := load(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	before := s.NotAfter()
	write(t, dir, "tls.crt", []byte("half a certifi"), 0o644)
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
	if files := snapshot(t, dir); len(files) > 0 || !s.NotAfter().Equal(before) || s.Err() != nil {
		t.Errorf("files that were taken away were replaced by ours: %v, %v", files, s.Err())
	}
	crt2, key2 := userPair(t, now.Add(-day), now.Add(2*day))
	write(t, dir, "tls.crt", crt2, 0o644)
	write(t, dir, "tls.key", key2, 0o600)
	deadline := time.After(20 * time.Second)
	for s.NotAfter().Equal(before) {
		select {
		case <-deadline:
			t.Fatal("the new certificate was not read")
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, dir, name string, data []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, mode); err != nil {
		t.Fatal(err)
	}
}

// userPair makes a certificate as a user might.
func userPair(t *testing.T, from, to time.Time) (crt, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "user"}, DNSNames: []string{"user.example.com"},
		NotBefore: from, NotAfter: to,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
