package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Token is an OAuth access token.
type Token struct {
	Value cloudauth.Secret
	// Expires is when it ends by this machine's clock; it is always set.
	Expires time.Time
	// Ahead is how much Google's clock is ahead of this machine's, 0 if it did not tell.
	Ahead time.Duration
}

// source gives tokens for scopes.
type source interface {
	token(ctx context.Context, scopes []string) (Token, error)
	// who says whose tokens they are, for errors.
	who() string
}

// maxLife is longer than any access token lives (12 hours, where an organization allows it).
const maxLife = 24 * time.Hour

var errNoToken = errors.New("no usable token")

// parseToken reads the answer of a token endpoint (RFC 6749, section 5.1), to a request of then.
func parseToken(body []byte, then time.Time) (Token, error) {
	var out struct {
		Value     cloudauth.Secret `json:"access_token"`
		Type      string           `json:"token_type"`
		ExpiresIn int64            `json:"expires_in"`
	}
	if err := decodeOne(body, &out); err != nil || out.Type != "Bearer" || out.ExpiresIn <= 0 || out.ExpiresIn > int64(maxLife/time.Second) {
		return Token{}, errNoToken
	}
	return newToken(out.Value, then.Add(time.Duration(out.ExpiresIn)*time.Second))
}

// parseImpersonated reads the answer of generateAccessToken.
func parseImpersonated(body []byte, then time.Time) (Token, error) {
	var out struct {
		Value   cloudauth.Secret `json:"accessToken"`
		Expires time.Time        `json:"expireTime"`
	}
	if err := decodeOne(body, &out); err != nil || out.Expires.IsZero() || out.Expires.Sub(then) > maxLife {
		return Token{}, errNoToken
	}
	return newToken(out.Value, out.Expires)
}

// newToken checks that a value can be one: it ends up in headers.
func newToken(value cloudauth.Secret, expires time.Time) (Token, error) {
	if value.IsEmpty() || !isPrintable(value.Reveal()) {
		return Token{}, errNoToken
	}
	return Token{Value: value, Expires: expires}, nil
}

func isPrintable(text string) bool {
	for _, r := range text {
		if r > unicode.MaxASCII || r <= ' ' || r == 0x7f {
			return false
		}
	}
	return true
}

// decodeOne decodes a document with nothing after it.
func decodeOne(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON document")
	}
	return nil
}
