package azure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func testTime() time.Time { return time.Unix(1_800_000_000, 0) }

// testKey makes an RSA key with its certificate once.
var testKey = sync.OnceValues(func() (*rsa.PrivateKey, *x509.Certificate) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: testTime().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil
	}
	cert, _ := x509.ParseCertificate(der)
	return key, cert
})

func block(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func TestCertificates(t *testing.T) {
	key, cert := testKey()
	if cert == nil {
		t.Fatal("no key")
	}
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ec8, err := x509.MarshalPKCS8PrivateKey(elliptic)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pfx := func(e *pkcs12.Encoder, password string) string {
		data, err := e.Encode(key, cert, []*x509.Certificate{cert}, password)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	certPEM, keyPEM := block("CERTIFICATE", cert.Raw), block("PRIVATE KEY", pkcs8)
	for name, tt := range map[string]struct{ file, password, want string }{
		"PEM":                    {"text before\n" + keyPEM + certPEM, "", ""},
		"PEM, certificate first": {certPEM + block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), "", ""},
		"PFX":                    {pfx(pkcs12.Modern, "s3cret"), "s3cret", ""},
		"PFX of old":             {pfx(pkcs12.LegacyDES, "s3cret"), "s3cret", ""},
		"PFX of older":           {pfx(pkcs12.LegacyRC2, "s3cret"), "s3cret", ""},
		"PFX without a password": {pfx(pkcs12.Passwordless, ""), "", ""},
		"PFX, password missing":  {pfx(pkcs12.Modern, "s3cret"), "", "it needs a password"},
		"PFX, password wrong":    {pfx(pkcs12.Modern, "s3cret"), "s3cret2", "its password is wrong"},
		"no key":                 {certPEM, "", "it has 0 private keys"},
		"two keys":               {keyPEM + keyPEM + certPEM, "", "it has 2 private keys"},
		"no certificate":         {keyPEM, "", "no certificate for its private key"},
		"another's certificate":  {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(other)) + certPEM, "", "no certificate for its private key"},
		"elliptic":               {block("PRIVATE KEY", ec8) + certPEM, "", "is no RSA key"},
		"encrypted":              {block("ENCRYPTED PRIVATE KEY", pkcs8) + certPEM, "s3cret", "its key is encrypted; decrypt it"},
		"encrypted as of old":    {strings.Replace(block("RSA PRIVATE KEY", pkcs8), "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1), "", "its key is encrypted"},
		"broken key":             {block("PRIVATE KEY", []byte("s3cret")) + certPEM, "", "a private key that cannot be read"},
		"broken certificate":     {keyPEM + block("CERTIFICATE", []byte("x")), "", "a certificate that cannot be read"},
		"neither":                {"s3cret", "", "it is neither PEM nor PKCS#12"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseCertificate([]byte(tt.file), cloudauth.NewSecret(tt.password))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || !c.key.Equal(key) || !c.chain[0].Equal(cert) {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
}

// FuzzCertificate checks that no file makes it panic, and that what is accepted has a key and its certificate.
func FuzzCertificate(f *testing.F) {
	key, cert := testKey()
	if cert == nil {
		f.Fatal("no key")
	}
	f.Add([]byte(block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))+block("CERTIFICATE", cert.Raw)), "")
	if data, err := pkcs12.Passwordless.Encode(key, cert, nil, ""); err == nil {
		f.Add(data, "")
	}
	f.Fuzz(func(t *testing.T, file []byte, password string) {
		c, err := parseCertificate(file, cloudauth.NewSecret(password))
		if err == nil && (c.key == nil || len(c.chain) == 0 || !c.key.PublicKey.Equal(c.chain[0].PublicKey)) {
			t.Errorf("accepted as %+v", c)
		}
	})
}
