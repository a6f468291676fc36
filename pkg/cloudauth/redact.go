package cloudauth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// minRedact is the length under which a secret is not searched for in a text: replacing
// every "a" would hide the text and tell the secret.
const minRedact = 4

// Redact returns text with every one of the secrets in it replaced by Redacted.
func Redact(text string, secrets ...Secret) string {
	for _, s := range secrets {
		if v := s.Reveal(); len(v) >= minRedact {
			text = strings.ReplaceAll(text, v, Redacted)
		}
	}
	return text
}

// Excerpt makes a text that came from outside fit for an error or a log: without the
// secrets, on one line, without control characters, at most limit bytes.
func Excerpt(text string, limit int, secrets ...Secret) string {
	// A huge text is cut first, so that it costs little; what the cut may have left of a
	// secret is at the end, shorter than the longest secret, and goes too.
	longest := 0
	for _, s := range secrets {
		longest = max(longest, len(s.Reveal()))
	}
	if rough := 4*limit + longest; len(text) > rough {
		text = Redact(text[:rough], secrets...)
		text = text[:max(len(text)-longest, 0)]
	}
	text = Redact(text, secrets...)
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= limit {
		return text
	}
	cut := max(limit-len("…"), 0)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
