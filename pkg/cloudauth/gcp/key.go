package gcp

import (
	"context"
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
	"net/url"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	grantJWT     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantRefresh = "refresh_token"
	oauthService = "Google OAuth"
	// assertionLife is how long an assertion is valid: an hour is the most that Google takes.
	assertionLife = time.Hour
	// clockSkew is how far back an assertion is dated, for nodes whose clock is fast.
	clockSkew = 10 * time.Second
)

// key is the private key of a service account.
type key struct {
	session  *Session
	file     string
	email    string
	id       string
	private  *rsa.PrivateKey
	tokenURL string
}

func (k *key) who() string {
	return fmt.Sprintf("service account %s (key %s)", k.email, cloudauth.Excerpt(k.id, 60))
}

// token implements source.
func (k *key) token(ctx context.Context, scopes []string) (Token, error) {
	now := k.session.now()
	assertion, err := k.assertion(now, scopes)
	if err != nil {
		return Token{}, err
	}
	r := request{
		service: oauthService, operation: "key of a service account", url: k.tokenURL, who: k.who(), secrets: []cloudauth.Secret{assertion},
		hint: func(_ int, code string) string {
			if code == "invalid_grant" {
				return "the key was deleted or disabled, its service account was, or the node's clock is wrong; make a new key for " + k.file
			}
			return "check the service account and the key in " + k.file
		},
	}.form(url.Values{"grant_type": {grantJWT}, "assertion": {assertion.Reveal()}})
	return k.session.tokenOf(ctx, r, now)
}

// assertion is the JWT that the key signs.
func (k *key) assertion(now time.Time, scopes []string) (cloudauth.Secret, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": k.id})
	if err != nil {
		return cloudauth.Secret{}, err
	}
	issued := now.Add(-clockSkew)
	payload, err := json.Marshal(map[string]any{
		"iss": k.email, "scope": strings.Join(scopes, " "), "aud": k.tokenURL, "iat": issued.Unix(), "exp": issued.Add(assertionLife).Unix(),
	})
	if err != nil {
		return cloudauth.Secret{}, err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString(header) + "." + enc.EncodeToString(payload)
	hash := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.private, crypto.SHA256, hash[:])
	if err != nil {
		return cloudauth.Secret{}, cloudauth.NewError(cloudauth.Misconfigured, "%s: private_key cannot sign (%v); make a new key", k.file, err)
	}
	return cloudauth.NewSecret(text + "." + enc.EncodeToString(signature)), nil
}

// parseKey reads a private key. Its errors show nothing of it.
func parseKey(text cloudauth.Secret) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, errors.New("private_key is no PEM block; was the file cut or its line breaks (\\n) changed?")
	}
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if private, ok := parsed.(*rsa.PrivateKey); ok {
			return private, nil
		}
		return nil, errors.New("private_key is no RSA key")
	}
	private, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("private_key is no private key in PKCS #8 or #1; was the file cut or changed?")
	}
	return private, nil
}

// user is the login of a person, as "gcloud auth application-default login" leaves it.
type user struct {
	session            *Session
	file, id, tokenURL string
	secret, refresh    cloudauth.Secret
}

func (u *user) who() string { return "the user whose login is in " + u.file }

// token implements source. The scopes are those that the user granted when logging in; Google
// takes no others here, and no fewer unless they were granted by themselves.
func (u *user) token(ctx context.Context, _ []string) (Token, error) {
	r := request{
		service: oauthService, operation: "login of a user", url: u.tokenURL, who: u.who(), secrets: []cloudauth.Secret{u.secret, u.refresh},
		hint: func(_ int, code string) string {
			if code == "invalid_grant" {
				return "the login has expired or was revoked; log in again with gcloud auth application-default login (on nodes, use a service account)"
			}
			return "log in again with gcloud auth application-default login"
		},
	}.form(url.Values{"grant_type": {grantRefresh}, "client_id": {u.id}, "client_secret": {u.secret.Reveal()}, "refresh_token": {u.refresh.Reveal()}})
	return u.session.tokenOf(ctx, r, u.session.now())
}
