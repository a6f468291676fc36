package cloudauth

import (
	"encoding/base64"
	"strings"
)

// minEncoded is the length of the part of a secret's base64 that is looked for: shorter ones stand by chance
// in many a text.
const minEncoded = 8

// redactEncoded replaces base64 in text that has a secret in it, wherever in what is encoded: for each of the
// three places at which it may begin, what of it depends on nothing around it is looked for.
func redactEncoded(text, secret string) string {
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat(" ", before) + secret))
		first := (8*before + 5) / 6 // characters in which there are bits of what is before
		last := 8 * (before + len(secret)) / 6
		if last-first < minEncoded {
			continue
		}
		core := encoded[first:last]
		for _, form := range []string{core, strings.NewReplacer("+", "-", "/", "_").Replace(core)} {
			text = redactRuns(text, form)
		}
	}
	return text
}

// redactRuns replaces each run of base64 in text that has part in it.
func redactRuns(text, part string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, part)
		if at < 0 {
			return out.String() + text
		}
		from, to := at, at+len(part)
		for from > 0 && isBase64(text[from-1]) {
			from--
		}
		for to < len(text) && isBase64(text[to]) {
			to++
		}
		out.WriteString(text[:from] + Redacted)
		text = text[to:]
	}
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// redactBasic replaces a user's name and password behind "Basic", whosever they are.
func redactBasic(text string) string {
	const scheme = "basic "
	for from := 0; ; {
		i := strings.Index(asciiLower(text[from:]), scheme)
		if i < 0 {
			return text
		}
		from += i + len(scheme)
		to := from
		for to < len(text) && isBase64(text[to]) {
			to++
		}
		plain := strings.TrimRight(text[from:to], "=")
		decoded, err := base64.RawStdEncoding.DecodeString(plain)
		if err != nil {
			decoded, err = base64.RawURLEncoding.DecodeString(plain)
		}
		if err == nil && strings.Contains(string(decoded), ":") {
			text = text[:from] + Redacted + text[to:]
			from += len(Redacted)
		}
	}
}

// asciiLower is in lower case what is ASCII, so that each byte keeps its place.
func asciiLower(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	return string(lower)
}
