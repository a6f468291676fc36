package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	certLifetime = 365 * 24 * time.Hour
	// backdate allows for clocks that differ.
	backdate = 5 * time.Minute
)

// authority is a CA of our own.
type authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     crypto.Signer
}

// issueIfDue issues a certificate where the directory has one of ours that is about to
// expire, is incomplete, or is for other names, and, if first is set, where it has none. It
// returns why it did; empty when it did not, as always where the files are the user's. Later
// than at the start, an empty directory is one whose files are being replaced: a new CA, which
// no client trusts yet, must not get between.
func (s *Files) issueIfDue(first bool) (string, error) {
	if len(s.opts.DNSNames) == 0 {
		return "", nil
	}
	ca, err := readAuthority(s.opts.Dir)
	if err != nil {
		return "", err
	}
	reason, err := s.due(ca)
	if err != nil || reason == "" || (ca == nil && !first) {
		return "", err
	}
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return "", fileError(err)
	}
	now := s.opts.Now()
	if ca == nil || remaining(ca.cert, now) < 2*certLifetime {
		if ca, err = s.newAuthority(now); err != nil {
			return "", err
		}
	}
	return reason, s.issue(ca, now)
}

// due says why a certificate must be issued. ca is nil where the directory has none of ours.
func (s *Files) due(ca *authority) (string, error) {
	hasCert, err := exists(s.opts.Dir, certFile)
	hasKey, err2 := exists(s.opts.Dir, keyFile)
	hasCA, err3 := exists(s.opts.Dir, caFile)
	if err := errors.Join(err, err2, err3); err != nil {
		return "", err
	}
	if ca == nil {
		if hasCert || hasKey || hasCA {
			return "", nil // the user's, complete or not
		}
		return "the directory has none", nil
	}
	if !hasCert {
		if hasKey {
			return "", nil // we write the certificate first, so this key is not ours
		}
		return "the directory has a CA of ours and no certificate", nil
	}
	data, err := readFile(s.opts.Dir, certFile)
	if err != nil {
		return "", err
	}
	cert, err := parseCertificate(data)
	if err != nil || cert.CheckSignatureFrom(ca.cert) != nil {
		return "", nil //nolint:nilerr // not issued by our CA, so it is the user's; reading it says what is wrong
	}
	return s.renewal(cert), nil
}

// renewal says why a certificate of ours must be issued anew.
func (s *Files) renewal(cert *x509.Certificate) string {
	if _, err := readPair(s.opts.Dir); err != nil {
		return "its files are incomplete"
	}
	if remaining(cert, s.opts.Now()) < certLifetime/3 {
		return "it is about to expire"
	}
	for _, name := range s.opts.DNSNames {
		if cert.VerifyHostname(name) != nil {
			return "it is not for " + name
		}
	}
	for _, ip := range s.opts.IPAddresses {
		if cert.VerifyHostname(ip.String()) != nil {
			return "it is not for " + ip.String()
		}
	}
	return ""
}

func remaining(cert *x509.Certificate, now time.Time) time.Duration { return cert.NotAfter.Sub(now) }

// readAuthority returns the CA of ours in dir; nil when there is none.
func readAuthority(dir string) (*authority, error) {
	if has, err := exists(dir, caKeyFile); err != nil || !has {
		return nil, err
	}
	keyPEM, err := readFile(dir, caKeyFile)
	if err != nil {
		return nil, err
	}
	keyPath := filepath.Join(dir, caKeyFile)
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, fmt.Errorf("%s: no private key in it; remove it to have a CA generated", keyPath)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to have a CA generated", keyPath, err)
	}
	has, err := exists(dir, caFile)
	if err != nil || !has {
		return nil, err // written just before a crash: nobody can trust it yet
	}
	certPEM, err := readFile(dir, caFile)
	if err != nil {
		return nil, err
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, nil //nolint:nilerr // not what we wrote, so it is the user's
	}
	if pub, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !pub.Equal(key.Public()) {
		return nil, nil // the user's ca.crt
	}
	return &authority{cert: cert, certPEM: certPEM, key: key}, nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// newAuthority makes and writes a CA, the key first: ca.crt with another key's would be
// taken for the user's.
func (s *Files) newAuthority(now time.Time) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("isthmus-webhook-ca@%d", now.Unix())},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	certPEM, cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writeFile(s.opts.Dir, caKeyFile, keyPEM, 0o600); err != nil {
		return nil, err
	}
	if err := writeFile(s.opts.Dir, caFile, certPEM, 0o644); err != nil {
		return nil, err
	}
	return &authority{cert: cert, certPEM: certPEM, key: key}, nil
}

// issue writes a serving certificate, its key last: see due.
func (s *Files) issue(ca *authority, now time.Time) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: s.opts.DNSNames[0]},
		DNSNames:              s.opts.DNSNames,
		IPAddresses:           s.opts.IPAddresses,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(certLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(s.opts.DNSNames[0]) > 64 {
		template.Subject.CommonName = "isthmus-webhook" // X.509 allows no longer name
	}
	certPEM, _, err := sign(template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	if err := writeFile(s.opts.Dir, certFile, certPEM, 0o644); err != nil {
		return err
	}
	return writeFile(s.opts.Dir, keyFile, keyPEM, 0o600)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: generate key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: encode key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func sign(template, parent *x509.Certificate, pub crypto.PublicKey, signer crypto.Signer) ([]byte, *x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook certificate: sign: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert, nil
}
