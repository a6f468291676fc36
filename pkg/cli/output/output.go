// Package output is how commands write what they have found: as a table or as JSON, of bounded and printable texts, with an exit code.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// The formats; the first is the default.
const (
	table = "table"
	JSON  = "json"
)

// AddFlag adds --output, which is a table unless it is given.
func AddFlag(fs *pflag.FlagSet, format *string) {
	fs.StringVarP(format, "output", "o", table, "how to write what was found: "+table+" or "+JSON)
}

// Validate says what is wrong with a value of --output.
func Validate(format string) error {
	if format != table && format != JSON {
		return fmt.Errorf("--output %.20q: it must be %s or %s", format, table, JSON)
	}
	return nil
}

// Encode writes v as indented JSON.
func Encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// mostText bounds what a cluster or a cloud can make of one text, in bytes.
const mostText = 500

// Line makes one bounded line of printable text of what comes from outside.
func Line(s string) string {
	return text.Clip(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }), " "), mostText)
}

// Exit is the exit code of a command that has said all in what it wrote.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
