package azure

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// certificate is an application's, with its key.
type certificate struct {
	chain []*x509.Certificate // the key's first
	key   *rsa.PrivateKey
}

// certificate reads the file of the settings.
func (s settings) certificate() (*certificate, error) {
	data, err := readFile("the client certificate", s.certFile)
	if err != nil {
		return nil, err
	}
	password := s.certPassword
	if s.certPasswordFile != "" {
		if password, err = readSecret("clientCertificatePasswordFile", s.certPasswordFile); err != nil {
			return nil, err
		}
	}
	c, err := parseCertificate(data, password)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %s: %w", s.certFile, err)
	}
	return c, nil
}

// parseCertificate reads PEM or PKCS#12. Errors show nothing of it.
func parseCertificate(data []byte, password cloudauth.Secret) (*certificate, error) {
	var keys []crypto.PrivateKey
	var certs []*x509.Certificate
	var err error
	if bytes.Contains(data, []byte("-----BEGIN ")) {
		keys, certs, err = parsePEM(data)
	} else {
		keys, certs, err = parsePKCS12(data, password)
	}
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, fmt.Errorf("it has %d private keys; it has to have one, and its certificate", len(keys))
	}
	key, ok := keys[0].(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("its key is no RSA key, which is the only kind that Entra ID takes")
	}
	for i, c := range certs {
		if public, ok := c.PublicKey.(*rsa.PublicKey); ok && public.Equal(&key.PublicKey) {
			certs[0], certs[i] = certs[i], certs[0]
			return &certificate{chain: certs, key: key}, nil
		}
	}
	return nil, errors.New("it has no certificate for its private key")
}

func parsePEM(data []byte) (keys []crypto.PrivateKey, certs []*x509.Certificate, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, nil, errors.New("it has a certificate that cannot be read")
			}
			certs = append(certs, c)
		case "PRIVATE KEY", "RSA PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return nil, nil, errors.New("its key is encrypted; decrypt it, or use PKCS#12 (.pfx) with a password")
			}
			var key crypto.PrivateKey
			if block.Type == "PRIVATE KEY" {
				key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
			} else {
				key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
			}
			if err != nil {
				return nil, nil, errors.New("it has a private key that cannot be read")
			}
			keys = append(keys, key)
		case "ENCRYPTED PRIVATE KEY":
			return nil, nil, errors.New("its key is encrypted; decrypt it, or use PKCS#12 (.pfx) with a password")
		}
	}
	return keys, certs, nil
}

func parsePKCS12(data []byte, password cloudauth.Secret) ([]crypto.PrivateKey, []*x509.Certificate, error) {
	key, cert, others, err := pkcs12.DecodeChain(data, password.Reveal())
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword) && password.IsEmpty():
		return nil, nil, errors.New("it needs a password")
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, nil, errors.New("its password is wrong")
	case err != nil:
		return nil, nil, errors.New("it is neither PEM nor PKCS#12 with one key and its certificate")
	}
	return []crypto.PrivateKey{key}, append([]*x509.Certificate{cert}, others...), nil
}

// assertionLife is how long an assertion is valid; it is used at once.
const assertionLife = 10 * time.Minute

// assertion is a JWT by which an application proves to be who it is, to the token endpoint at address.
func (c *certificate) assertion(client, address string, chain bool, now time.Time) (cloudauth.Secret, error) {
	own := c.chain[0]
	if now.After(own.NotAfter) {
		return cloudauth.Secret{}, fmt.Errorf("the client certificate has expired at %s; renew it, or check the clock of the machine", own.NotAfter.UTC().Format(time.RFC3339))
	}
	thumbprint := sha256.Sum256(own.Raw)
	header := map[string]any{"alg": "PS256", "typ": "JWT", "x5t#S256": base64.RawURLEncoding.EncodeToString(thumbprint[:])}
	if chain {
		header["x5c"] = c.encodedChain()
	}
	payload := map[string]any{
		"aud": address, "iss": client, "sub": client, "jti": rand.Text(),
		"nbf": now.Add(-time.Minute).Unix(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}
	text := ""
	for _, part := range []any{header, payload} {
		data, err := json.Marshal(part)
		if err != nil {
			return cloudauth.Secret{}, fmt.Errorf("encode the assertion: %w", err)
		}
		text += base64.RawURLEncoding.EncodeToString(data) + "."
	}
	text = text[:len(text)-1]
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPSS(rand.Reader, c.key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	if err != nil {
		return cloudauth.Secret{}, fmt.Errorf("sign with the client certificate: %w", err)
	}
	return cloudauth.NewSecret(text + "." + base64.RawURLEncoding.EncodeToString(signature)), nil
}

func (c *certificate) encodedChain() []string {
	var out []string
	for _, cert := range c.chain {
		out = append(out, base64.StdEncoding.EncodeToString(cert.Raw))
	}
	return out
}
