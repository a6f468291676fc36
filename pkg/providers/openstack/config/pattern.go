package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxPattern is how long a name may be.
const maxPattern = 255

// SubnetMatcher reads a name pattern: a glob, a regular expression after "~", either negated
// by a leading "!". The empty pattern matches everything. As in the existing manager the leftmost
// match of a regular expression must be the whole name, of alternatives the first that matches, so
// that ~pub|public is not the name public; and a subnet without a name matches each pattern.
//
// A pattern is no longer than a name: of 23 kB, as an annotation may have, one takes 700 MB and two
// seconds to compile.
func SubnetMatcher(pattern string) (func(name string) bool, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a pattern of %d characters is too long: %d are allowed", len(pattern), maxPattern)
	}
	rest, negated := strings.CutPrefix(pattern, "!")
	expr, isRegexp := strings.CutPrefix(rest, "~")
	if !isRegexp {
		expr = globExpression(rest)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return (re.FindString(name) == name) != negated }, nil
}

// globExpression is a glob as a regular expression: * is anything but a slash, ? one character,
// [] a class of characters, {a,b} one of the items, **/ any folders.
func globExpression(glob string) string {
	var re strings.Builder
	group := false
	for rest := glob; rest != ""; {
		_, size := utf8.DecodeRuneInString(rest)
		next := rest[:size]
		switch {
		case strings.HasPrefix(rest, "**/"):
			next = "**/"
			re.WriteString(`(?:[-.{} \w]+/)*`)
		case next == "*":
			re.WriteString("[^/]*")
		case next == "?":
			re.WriteString(".")
		case next == "[", next == "]":
			re.WriteString(next)
		case next == "{":
			group = true
			re.WriteString("(?:")
		case next == "}" && group:
			group = false
			re.WriteString(")")
		case next == "," && group:
			re.WriteString("|")
		default:
			re.WriteString(regexp.QuoteMeta(next))
		}
		rest = rest[len(next):]
	}
	return "^" + re.String() + "$"
}
