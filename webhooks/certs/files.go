package certs

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"
)

// FilesOptions say where certificates are.
type FilesOptions struct {
	Dir string
	// Overlap is how long a new CA is in CABundle before a certificate of it is served; 0 for
	// at once.
	Overlap time.Duration
	// Interval is how often the files are looked at; 0 means 5 s.
	Interval time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Files is the Source of a directory's tls.crt, tls.key and, optionally, ca.crt, which are
// somebody else's: it never writes them.
type Files struct {
	*adopter
	opts FilesOptions
}

var _ Source = (*Files)(nil)

// LoadFiles reads the certificate. A certificate that expired is no error of LoadFiles but of
// Err: a webhook is no reason to keep the controllers of the same process from running.
func LoadFiles(ctx context.Context, o FilesOptions) (*Files, error) {
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := newHeld(filepath.Join(o.Dir, certFile), "replace "+certFile+" and "+keyFile, o.Now)
	f := &Files{adopter: &adopter{held: h, overlap: o.Overlap}, opts: o}
	if err := f.read(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Run follows the files until ctx ends. What is wrong with new files, or that they are gone,
// is logged; the certificate in use stays until they are right.
func (f *Files) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("certDir", f.opts.Dir))
	if err := f.Err(); err != nil {
		klog.FromContext(ctx).Error(err, "Webhook certificate is not valid")
	}
	ticker := time.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.problem(ctx, f.read(ctx))
		}
	}
}

// read reads the files and takes what they hold.
func (f *Files) read(ctx context.Context) error {
	cert, ca, err := readFiles(f.opts.Dir)
	if err != nil {
		return err
	}
	return f.offer(ctx, cert, ca)
}

// The files of a certificate directory.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// readFiles reads a directory's certificate.
func readFiles(dir string) (*tls.Certificate, []byte, error) {
	crt, err := readFile(dir, certFile)
	if err != nil {
		return nil, nil, err
	}
	key, err := readFile(dir, keyFile)
	if err != nil {
		return nil, nil, err
	}
	ca, err := readFile(dir, caFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	cert, err := parsePair(crt, key, ca, func(name string) string { return filepath.Join(dir, name) })
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: %w", err)
	}
	return cert, ca, nil
}

// parsePair reads a certificate, its key and the CAs to trust, which may be missing. Errors
// name what where returns for tls.crt, tls.key and ca.crt, and repeat nothing of the content.
func parsePair(crt, key, ca []byte, where func(name string) string) (*tls.Certificate, error) {
	if _, err := parseCertificates(ca); err != nil {
		return nil, fmt.Errorf("%s: %w", where(caFile), err)
	}
	cert, err := tls.X509KeyPair(crt, key)
	if err == nil {
		return &cert, nil
	}
	if block, _ := pem.Decode(crt); block == nil {
		return nil, fmt.Errorf("%s: no certificate in it; it must be PEM with the server's certificate first", where(certFile))
	}
	if block, _ := pem.Decode(key); block == nil {
		return nil, fmt.Errorf("%s: no private key in it; it must be PEM and not encrypted", where(keyFile))
	}
	return nil, fmt.Errorf("%s and %s do not make a pair: %w; the key must be that of the first certificate", where(certFile), where(keyFile), err)
}

func readFile(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return data, fileError(err)
}

// fileError says what to do about a file that cannot be read.
func fileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("webhook certificate: %w; put tls.crt and tls.key there, or choose --webhook-cert-source=self-managed", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("webhook certificate: %w; give the user that runs this process (uid %d) access to it", err, os.Getuid())
	}
	return fmt.Errorf("webhook certificate: %w", err)
}
