package cloudauth

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minRedact is the length under which a secret is not searched for in a text: replacing
// every "a" would hide the text and tell the secret.
const minRedact = 4

// Redact returns text with every one of the secrets in it replaced by Redacted, also where it stands in base64,
// alone or after a user's name, and what stands behind "Basic" as a header's value has it.
func Redact(text string, secrets ...Secret) string {
	// The longest first: of a secret that begins with another one nothing may be left.
	byLength := func(a, b Secret) int { return len(b.Reveal()) - len(a.Reveal()) }
	for _, s := range slices.SortedStableFunc(slices.Values(secrets), byLength) {
		if v := s.Reveal(); len(v) >= minRedact {
			text = strings.ReplaceAll(text, v, Redacted)
			text = redactEncoded(text, v)
		}
	}
	return redactBasic(text)
}

// RedactLong is Redact for a text of which about limit bytes are wanted and that was perhaps
// cut before: of a longer text no half of a secret is left at the end.
func RedactLong(text string, limit int, secrets ...Secret) string {
	longest := 0
	for _, s := range secrets {
		longest = max(longest, len(s.Reveal()))
	}
	longest += (longest+2)/3 + 4 // as long as it is in base64
	if len(text) <= limit+longest {
		return Redact(text, secrets...)
	}
	// What the cut leaves of a secret is at the end and shorter than the longest one.
	text = Redact(text[:limit+longest], secrets...)
	return text[:max(len(text)-longest, 0)]
}

// Excerpt makes a text that came from outside fit for an error or a log: without the
// secrets, on one line, without control characters and those that turn the direction of a text, at most limit
// bytes.
func Excerpt(text string, limit int, secrets ...Secret) string {
	text = Redact(text, secrets...)
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
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
