// Package text has what several packages ask of a string: whether it is a UUID, which items a
// list has, its beginning where it is too long, what of it can be printed, a label's value made of it.
//
// It knows nothing of clouds or Kubernetes' objects, imports no other package of this module,
// and takes no secrets out of what it is given: cloudauth.Excerpt does.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// IsUUID reports whether s is a UUID in its canonical form of 36 characters.
func IsUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// List splits a comma-separated list, dropping blanks and empty items.
func List(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// Clip returns s, or its first letters, at most so many bytes of them, and an ellipsis.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// printable is s on one line, without what cannot be printed: each run of control characters, line ends, direction marks and what is no
// UTF-8 becomes a blank, or nothing at the ends.
func printable(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }), " ")
}

// Line is what a log line, an event or a page shows of a text from outside, however long and whatever is in it: on one line without what cannot be printed, and Clip to
// so many bytes.
func Line(s string, most int) string { return Clip(printable(Clip(s, 4*most)), most) }

// LabelValue makes s a valid value of a label: each run of other characters becomes a dash, the
// ends are trimmed, and it is cut at 63.
func LabelValue(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range s {
		ok := r == '-' || r == '_' || r == '.' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z')
		if ok {
			b.WriteRune(r)
		} else if !dash {
			b.WriteByte('-')
		}
		dash = !ok
	}
	v := strings.Trim(b.String(), "-_.")
	if len(v) > 63 {
		v = strings.TrimRight(v[:63], "-_.")
	}
	return v
}
