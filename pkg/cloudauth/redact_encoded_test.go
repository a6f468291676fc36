package cloudauth_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// A secret is not shown in base64 either, wherever it stands in what is encoded.
func TestRedactEncoded(t *testing.T) {
	secret := cloudauth.NewSecret("s3cret?>of-nobody")
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, user := range []string{"", "a", "ab", "abc", "robot$team+puller"} {
			for _, after := range []string{"", ":", "xy", "xyz"} {
				encoded := encoding.EncodeToString([]byte(user + ":" + secret.Reveal() + after))
				text := `{"auth":"` + encoded + `","twice":"` + encoded + `"}`
				if got, want := cloudauth.Redact(text, secret), `{"auth":"[redacted]","twice":"[redacted]"}`; got != want {
					t.Errorf("%q, %q: got %s", user, after, got)
				}
			}
		}
	}
}

func TestRedactBasic(t *testing.T) {
	credentials := base64.StdEncoding.EncodeToString([]byte("someone:else's"))
	for text, want := range map[string]string{
		"Authorization: Basic " + credentials:                 "Authorization: Basic [redacted]",
		"basic " + credentials + " BASIC " + credentials:      "basic [redacted] BASIC [redacted]",
		"\u0130 Basic " + strings.TrimRight(credentials, "="): "\u0130 Basic [redacted]",
		"basic authentication failed":                         "basic authentication failed",
		"Basic realm=\"registry\"":                            "Basic realm=\"registry\"",
		"\xff\xff Basic " + credentials + "\xff":              "\xff\xff Basic [redacted]\xff",
		"BASIC ":                                              "BASIC ",
	} {
		if got := cloudauth.Redact(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What turns the direction of a text, or is not seen, would make a line say another thing than it does.
func TestExcerptRemovesInvisibleCharacters(t *testing.T) {
	for _, r := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\ufeff" {
		if got := cloudauth.Excerpt("a"+string(r)+"b", 40); got != "a b" {
			t.Errorf("%U: got %q", r, got)
		}
	}
}

// Where a long text is cut, nothing stays of a secret in base64, which is longer than the secret.
func TestRedactLongEncoded(t *testing.T) {
	const limit = 100
	secret := cloudauth.NewSecret("correct horse battery staple")
	encoded := base64.StdEncoding.EncodeToString([]byte(secret.Reveal()))
	for before := range limit + 2*len(encoded) {
		text := strings.Repeat("-", before) + encoded + strings.Repeat("-", 3*limit)
		if got := cloudauth.RedactLong(text, limit, secret); strings.Contains(got, encoded[:4]) {
			t.Fatalf("%d before it: %q", before, got)
		}
	}
}
