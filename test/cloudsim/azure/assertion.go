package azure

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the thumbprint that Entra ID still takes
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// ownAssertion is what an application signs with its certificate.
type ownAssertion struct {
	header struct {
		Algorithm string   `json:"alg"`
		SHA1      string   `json:"x5t"`
		SHA256    string   `json:"x5t#S256"`
		Chain     []string `json:"x5c"`
	}
	claims struct {
		Audience  string `json:"aud"`
		Issuer    string `json:"iss"`
		Subject   string `json:"sub"`
		ID        string `json:"jti"`
		NotBefore int64  `json:"nbf"`
		Expires   int64  `json:"exp"`
	}
	signed    string
	signature []byte
}

func parseOwn(text string) (*ownAssertion, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errors.New("not three parts")
	}
	a := &ownAssertion{signed: parts[0] + "." + parts[1]}
	enc := base64.RawURLEncoding
	header, err := enc.DecodeString(parts[0])
	claims, claimsErr := enc.DecodeString(parts[1])
	var sigErr error
	a.signature, sigErr = enc.DecodeString(parts[2])
	if err := errors.Join(err, claimsErr, sigErr); err != nil {
		return nil, err
	}
	return a, errors.Join(json.Unmarshal(header, &a.header), json.Unmarshal(claims, &a.claims))
}

// isOwnAssertion reports whether an application signed it itself.
func isOwnAssertion(text, client string) bool {
	a, err := parseOwn(text)
	return err == nil && a.claims.Issuer == client
}

// verifyOwn checks an assertion as Entra ID does. mu held.
func (s *Sim) verifyOwn(text string, id *identity, endpoint string) error {
	a, err := parseOwn(text)
	if err != nil {
		return errorf(http.StatusUnauthorized, "50027", "JWT token is invalid or malformed.")
	}
	now := time.Now().Unix()
	switch {
	case a.claims.Subject != id.ClientID:
		return errorf(http.StatusUnauthorized, "700021", "Client assertion application identifier doesn't match 'client_id' parameter.")
	case a.claims.Audience != endpoint:
		return errorf(http.StatusUnauthorized, "700023", "Client assertion audience claim does not match Realm issuer.")
	case now < a.claims.NotBefore || now >= a.claims.Expires || a.claims.Expires-now > 24*3600:
		return errorf(http.StatusUnauthorized, "700024", "Client assertion is not within its valid time range.")
	case a.claims.ID == "" || s.assertions[a.claims.ID]:
		return errorf(http.StatusUnauthorized, "700022", "The client assertion was used before.")
	}
	for _, cert := range id.Certificates {
		if a.signedBy(cert) {
			s.assertions[a.claims.ID] = true
			return nil
		}
	}
	return errorf(http.StatusUnauthorized, "700027", "The certificate with identifier used to sign the client assertion is not registered on application. [Reason - The key was not found., Thumbprint of key used by client: '%s'.", a.header.SHA256+a.header.SHA1)
}

// signedBy verifies thumbprint and signature.
func (a *ownAssertion) signedBy(cert *x509.Certificate) bool {
	enc := base64.RawURLEncoding
	long, short := sha256.Sum256(cert.Raw), sha1.Sum(cert.Raw) //nolint:gosec // as above
	// The SDK writes thumbprints in the other base64, which Entra ID takes as well.
	plain := strings.NewReplacer("+", "-", "/", "_", "=", "")
	if plain.Replace(a.header.SHA256) != enc.EncodeToString(long[:]) && plain.Replace(a.header.SHA1) != enc.EncodeToString(short[:]) {
		return false
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok || time.Now().After(cert.NotAfter) {
		return false
	}
	sum := sha256.Sum256([]byte(a.signed))
	switch a.header.Algorithm {
	case "PS256":
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], a.signature, nil) == nil
	case "RS256":
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], a.signature) == nil
	}
	return false
}
