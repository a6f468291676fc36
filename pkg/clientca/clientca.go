// Package clientca says whether client certificates are of authorities that a file names.
package clientca

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// File is a file of authorities in PEM form, read again when it has changed. It is safe for
// concurrent use.
type File struct {
	path string

	mu      sync.Mutex
	looked  time.Time
	content []byte
	roots   *x509.CertPool
}

// lookEvery is how often the file is looked at.
const lookEvery = 10 * time.Second

// Open reads the file at path.
func Open(path string, now time.Time) (*File, error) {
	f := &File{path: path}
	if _, err := f.Roots(now); err != nil {
		return nil, err
	}
	return f, nil
}

// Roots returns the authorities; a pool is another one only when the file has changed. When
// they cannot be read again, it says so once for each look at the file and returns those read
// last.
func (f *File) Roots(now time.Time) (*x509.CertPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.roots != nil && now.Sub(f.looked) < lookEvery {
		return f.roots, nil
	}
	f.looked = now
	content, err := os.ReadFile(f.path)
	if err != nil {
		return f.roots, fmt.Errorf("read certificates: %w", err)
	}
	if f.roots != nil && bytes.Equal(content, f.content) {
		return f.roots, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return f.roots, errors.New(f.path + " holds no certificate in PEM form")
	}
	f.content, f.roots = content, roots
	return roots, nil
}

// Verify returns nil if chain, a client's certificate and those between it and its authority,
// is valid now for a client, by one of roots.
func Verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}
