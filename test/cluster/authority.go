package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/rest"
	clientcert "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority is the CA of the cluster, and of the registry.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("a key for the CA: %w", err)
	}
	cert, err := clientcert.NewSelfSignedCACert(clientcert.Config{CommonName: "cluster"}, key)
	if err != nil {
		return nil, fmt.Errorf("a CA: %w", err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: clientcert.CertificateBlockType, Bytes: cert.Raw})}, nil
}

// issue makes a certificate, of a server if it has hosts, else of a client.
func (a *authority) issue(name string, groups, hosts []string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("a key for %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, fmt.Errorf("a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups}, NotBefore: a.cert.NotBefore, NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("a certificate for %s: %w", name, err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(k); err != nil {
		return nil, nil, fmt.Errorf("the key of %s: %w", name, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: clientcert.CertificateBlockType, Bytes: der}), key, nil
}

// client is the configuration of a client of the API server with a certificate of its own.
func (a *authority) client(server, name string, groups ...string) (*rest.Config, error) {
	cert, key, err := a.issue(name, groups, nil)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: a.pem, CertData: cert, KeyData: key}}, nil
}
