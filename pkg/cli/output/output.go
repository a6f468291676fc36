// Package output is how commands write what they have found: as a table or as JSON, of bounded and printable texts, with an exit code.
package output

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"

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

// Encode writes v as indented JSON. Of what comes from outside nothing reaches a terminal that is not printable: it is escaped.
func Encode(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, r := range b.String() {
		if r == '\n' || unicode.IsPrint(r) {
			_, _ = out.WriteRune(r) // Flush has the error
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // only texts have such
			_, _ = fmt.Fprintf(out, `\u%04x`, unit)
		}
	}
	return out.Flush()
}

// mostText bounds what a cluster or a cloud can make of one text, in bytes.
const mostText = 500

// Line makes one bounded line of printable text of what comes from outside.
func Line(s string) string {
	return text.Line(s, mostText)
}

// Exit is the exit code of a command that has said all in what it wrote.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
