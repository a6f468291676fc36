package cloudsim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// IssuerURL is the OIDC issuer of the tokens that an Issuer makes.
const IssuerURL = "https://oidc.cluster.test"

// Issuer makes the tokens of a cluster's service accounts, and verifies them for a cloud, with
// those of real clusters that it trusts.
type Issuer struct {
	key *ecdsa.PrivateKey

	mu      sync.Mutex
	trusted map[string]*ecdsa.PublicKey // by issuer
}

// NewIssuer returns an issuer with a key of its own.
func NewIssuer() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("a key for the OIDC issuer: %w", err)
	}
	return &Issuer{key: key, trusted: map[string]*ecdsa.PublicKey{IssuerURL: &key.PublicKey}}, nil
}

// Trust adds a real cluster, which signs its service accounts' tokens with this key (ES256).
func (i *Issuer) Trust(issuer string, key *ecdsa.PublicKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.trusted[issuer] = key
}

// TokenClaims are what a service account's token says.
type TokenClaims struct {
	Namespace, Name string
	Audience        []string
	Lifetime        time.Duration
}

// ServiceAccountToken signs a token as the cluster's issuer does.
func (i *Issuer) ServiceAccountToken(c TokenClaims) (string, error) {
	now := time.Now()
	payload, err := json.Marshal(map[string]any{
		"iss": IssuerURL, "sub": "system:serviceaccount:" + c.Namespace + ":" + c.Name, "aud": c.Audience,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(c.Lifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode the claims: %w", err)
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"ES256","kid":"sim"}`)) + "." + enc.EncodeToString(payload)
	hash := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, hash[:])
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return text + "." + enc.EncodeToString(raw), nil
}

// PublicKey is the issuer's, for whoever else verifies its tokens.
func (i *Issuer) PublicKey() crypto.PublicKey { return i.key.Public() }

// Verified is what a token says.
type Verified struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience []string `json:"aud"`
	Expires  int64    `json:"exp"`
}

// Expired reports whether the token has expired.
func (v *Verified) Expired() bool { return time.Now().After(time.Unix(v.Expires, 0)) }

// The errors of Verify.
var (
	ErrNotJWT       = errors.New("the token is no JWT")
	ErrWrongIssuer  = errors.New("the token is another issuer's")
	ErrBadSignature = errors.New("the token's signature is wrong")
)

// Verify checks that a token is this issuer's, or a trusted one's, and returns what it says. Whether it has expired, and
// for whom it is, is for the caller to decide. With ErrWrongIssuer it says what the token claims.
func (i *Issuer) Verify(token string) (*Verified, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, ErrNotJWT
	}
	enc := base64.RawURLEncoding
	sig, sigErr := enc.DecodeString(parts[2])
	payload, err := enc.DecodeString(parts[1])
	var v Verified
	if errors.Join(sigErr, err, json.Unmarshal(payload, &v)) != nil || len(sig) != 64 {
		return nil, ErrNotJWT
	}
	i.mu.Lock()
	key := i.trusted[v.Issuer]
	i.mu.Unlock()
	if key == nil {
		return &v, ErrWrongIssuer
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return nil, ErrBadSignature
	}
	return &v, nil
}
