package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files of a certificate directory.
const (
	certFile  = "tls.crt"
	keyFile   = "tls.key"
	caFile    = "ca.crt"
	caKeyFile = "isthmus-ca.key"
)

// pair is a certificate with its key and the CA to trust.
type pair struct {
	path             string
	cert             tls.Certificate
	certPEM, key, ca []byte
}

// readPair reads a directory's certificate.
func readPair(dir string) (*pair, error) {
	p := &pair{path: filepath.Join(dir, certFile)}
	var err error
	if p.certPEM, err = readFile(dir, certFile); err != nil {
		return nil, err
	}
	if p.key, err = readFile(dir, keyFile); err != nil {
		return nil, err
	}
	if p.ca, err = readFile(dir, caFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p.ca != nil && !x509.NewCertPool().AppendCertsFromPEM(p.ca) {
		return nil, fmt.Errorf("%s: no certificate in it; it must be PEM", filepath.Join(dir, caFile))
	}
	if p.cert, err = tls.X509KeyPair(p.certPEM, p.key); err != nil {
		return nil, pairError(dir, p, err)
	}
	return p, nil
}

// pairError says which of the two files is at fault, without repeating anything of them.
func pairError(dir string, p *pair, err error) error {
	certPath, keyPath := filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	if block, _ := pem.Decode(p.certPEM); block == nil {
		return fmt.Errorf("%s: no certificate in it; it must be PEM with the server's certificate first", certPath)
	}
	if block, _ := pem.Decode(p.key); block == nil {
		return fmt.Errorf("%s: no private key in it; it must be PEM and not encrypted", keyPath)
	}
	return fmt.Errorf("%s and %s do not make a pair: %w; the key must be that of the first certificate", certPath, keyPath, err)
}

func readFile(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return data, fileError(err)
}

// fileError says what to do about a file that cannot be read or written.
func fileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("webhook certificate: %w; put tls.crt and tls.key there, or leave the directory empty to have them generated", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("webhook certificate: %w; give the user that runs this process (uid %d) access to it", err, os.Getuid())
	}
	return fmt.Errorf("webhook certificate: %w", err)
}

func (p *pair) equal(o *pair) bool {
	return bytes.Equal(p.certPEM, o.certPEM) && bytes.Equal(p.key, o.key) && bytes.Equal(p.ca, o.ca)
}

// checkTime says whether the certificate is valid at now.
func (p *pair) checkTime(now time.Time) error {
	leaf := p.cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s: the certificate expired at %s; replace %s and %s", p.path, leaf.NotAfter.Format(time.RFC3339), certFile, keyFile)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s: the certificate is not valid before %s; check the clock or replace it", p.path, leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// exists reports whether dir has the file.
func exists(dir, name string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, fileError(err)
}

// writeFile puts a file in place at once and for good: a reader sees the old or the new one.
func writeFile(dir, name string, data []byte, mode fs.FileMode) (err error) {
	tmp, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return fileError(err)
	}
	defer func() {
		if err != nil {
			err = fileError(err)
			_ = os.Remove(tmp.Name()) // best effort: the first error is the one to report
		}
	}()
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(dir, name))
}
