package aws

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// tunnels is a net.Listener of the connections that came through the proxy.
type tunnels struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newTunnels(addr net.Addr) *tunnels {
	return &tunnels{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return t.addr }

// buffered is a connection of which something was read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// connect answers CONNECT: for a name that AWS has it ends the TLS connection itself.
func (s *Sim) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if _, known := endpointOf(host); err != nil || port != "443" || !known {
		s.obs.refuse(r.Host)
		http.Error(w, "no such host: "+r.Host, http.StatusBadGateway)
		return
	}
	cert, err := s.certificate(host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return
	}
	wrapped := tls.Server(buffered{conn, rw.Reader}, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}})
	select {
	case s.tunnels.conns <- wrapped:
	case <-s.tunnels.done:
		_ = conn.Close()
	}
}

// makeCA makes the CA and writes its certificate to file.
func (s *Sim) makeCA(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("a key for the simulated AWS: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated Amazon Root CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("a CA for the simulated AWS: %w", err)
	}
	if s.caCert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("a CA for the simulated AWS: %w", err)
	}
	s.caKey, s.caFile = key, file
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// certificate makes a certificate for one of AWS' names.
func (s *Sim) certificate(host string) (*tls.Certificate, error) {
	if s.caKey == nil {
		return nil, errors.New("the simulated AWS has no CA")
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.caCert, s.caKey.Public(), s.caKey)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: s.caKey}, nil
}
