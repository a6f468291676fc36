package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// makeCertificates makes a CA, writes its certificate to a temporary file and returns a server
// configuration with a certificate for the loopback addresses.
func (s *API) makeCertificates() (*tls.Config, error) {
	ca, conf, err := s.newCertificates()
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "cloudsim-openstack-"); err != nil {
		return nil, fmt.Errorf("make a folder for the CA file: %w", err)
	}
	s.caFile = filepath.Join(s.dir, "ca.pem")
	if err := os.WriteFile(s.caFile, ca, 0o600); err != nil {
		return nil, fmt.Errorf("write the CA file: %w", err)
	}
	s.tls.Store(conf)
	front := conf.Clone()
	front.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tls.Load(), nil }
	return front, nil
}

// NewCertificates makes a new CA and a server certificate of it, and returns the CA's
// certificate (PEM) with a function that makes the server use its certificate from then on,
// for new connections. The file CAFile stays as it is.
func (s *API) NewCertificates() (ca []byte, use func(), err error) {
	ca, conf, err := s.newCertificates()
	return ca, func() { s.tls.Store(conf) }, err
}

// RequireClientCertificate makes the server refuse new connections of clients without a
// certificate of one of the CAs (PEM).
func (s *API) RequireClientCertificate(cas []byte) {
	conf := s.tls.Load().Clone()
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	conf.ClientCAs.AppendCertsFromPEM(cas)
	s.tls.Store(conf)
}

// CloseAfterAnswer makes the server close each connection after one answer, so that changed
// certificates matter at once.
func (s *API) CloseAfterAnswer() { s.http.SetKeepAlivesEnabled(false) }

// newCertificates makes a CA, which is returned as PEM, and a server configuration.
func (s *API) newCertificates() ([]byte, *tls.Config, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the CA's key: %w", err)
	}
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return nil, nil, fmt.Errorf("listen address %q: %w", s.listen, err)
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "simulated OpenStack CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "simulated OpenStack"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(host)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make the CA's certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the server's key: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make the server's certificate: %w", err)
	}
	pemBytes := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return pemBytes, &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}},
	}, nil
}
