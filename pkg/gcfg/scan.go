package gcfg

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"gopkg.in/gcfg.v1/scanner"
	"gopkg.in/gcfg.v1/token"
)

// entry is a section header (key "") or a "key = value" line of a file in gcfg syntax.
type entry struct {
	line         int
	section, sub string
	key, value   string
	blank        bool      // no "=" follows the key
	cut          bool      // a comment starts right after the value, without a space between
	kind         yaml.Kind // of the value, in YAML
}

// complaint is a mistake in one line of the file.
type complaint struct {
	line int
	what string
}

// Error implements error.
func (c complaint) Error() string { return fmt.Sprintf("line %d: %s", c.line, c.what) }

// scanGCFG reads the file's entries. A line that cannot be read becomes an error and is
// passed over; the lines after a section header that cannot be read are passed over as well,
// because it is not known where they belong.
func scanGCFG(data []byte) ([]entry, []complaint) {
	p := parser{}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(data))
	p.scanner.Init(file, data, func(pos token.Position, msg string) {
		if p.scanErr == nil {
			p.scanErr = reason(pos.Line, msg)
		}
	}, scanner.ScanComments)
	p.position = func() token.Position { return fset.Position(p.pos) }
	for p.next(); p.tok != token.EOF; {
		p.readLine()
	}
	return p.entries, p.errs
}

type parser struct {
	scanner  scanner.Scanner
	position func() token.Position
	pos      token.Pos
	tok      token.Token
	lit      string
	scanErr  *complaint // the scanner's first complaint on this line

	known        bool // a readable section header came before
	section, sub string
	entries      []entry
	errs         []complaint
}

func (p *parser) next() { p.pos, p.tok, p.lit = p.scanner.Scan() }

// readLine reads one line and leaves the parser at the start of the next one.
func (p *parser) readLine() {
	line := p.position().Line
	var err *complaint
	switch p.tok {
	case token.EOL, token.COMMENT:
	case token.LBRACK:
		p.known = false
		err = p.readHeader(line)
	case token.IDENT:
		err = p.readKey(line)
	default:
		err = reason(line, "expected a [section] or key = value")
	}
	for p.tok != token.EOL && p.tok != token.EOF {
		if p.scanErr != nil && p.position().Line > line {
			break // an unterminated string has swallowed the end of its line
		}
		p.next()
	}
	if p.scanErr != nil {
		err = p.scanErr // it came first and says more
		p.scanErr = nil
	}
	if err != nil {
		p.errs = append(p.errs, *err)
	}
	if p.tok == token.EOL {
		p.next()
	}
}

func (p *parser) readHeader(line int) *complaint {
	p.next()
	if p.tok != token.IDENT {
		return reason(line, "expected the name of a section after '['")
	}
	section, sub := p.lit, ""
	p.next()
	if p.tok == token.STRING {
		if p.scanErr != nil {
			return p.scanErr
		}
		if sub = unquote(p.lit); sub == "" {
			return reason(line, "the name in quotes is empty")
		}
		p.next()
	}
	if p.tok != token.RBRACK {
		return reason(line, `expected ']' at the end of the section's name; a section is [Name] or [Name "sub"]`)
	}
	p.next()
	if !p.atEnd() {
		return reason(line, "expected nothing after ']'")
	}
	p.section, p.sub, p.known = section, sub, true
	p.entries = append(p.entries, entry{line: line, section: section, sub: sub})
	return nil
}

func (p *parser) readKey(line int) *complaint {
	e := entry{line: line, section: p.section, sub: p.sub, key: p.lit}
	p.next()
	if p.atEnd() {
		e.blank = true
		return p.add(e)
	}
	if p.tok != token.ASSIGN {
		return reason(line, "expected '=' after the key") // not by name: it may be the rest of a value
	}
	p.next()
	if p.scanErr != nil {
		return p.scanErr
	}
	if p.tok != token.STRING {
		return reason(line, "expected a value after "+e.key+" =")
	}
	e.value = unquote(p.lit)
	end := p.position().Column + len(p.lit)
	p.next()
	if !p.atEnd() {
		return reason(line, "expected nothing after the value of "+e.key)
	}
	e.cut = p.tok == token.COMMENT && e.value != "" && p.position().Line == line && p.position().Column == end
	return p.add(e)
}

// add takes the entry over, unless a comment after it was unreadable.
func (p *parser) add(e entry) *complaint {
	switch {
	case p.scanErr != nil:
		return p.scanErr
	case p.known:
		p.entries = append(p.entries, e)
	case p.section == "" && len(p.errs) == 0:
		return reason(e.line, "a key comes before the first [section]; is this a cloud.conf?")
	}
	return nil
}

func (p *parser) atEnd() bool {
	return p.tok == token.EOL || p.tok == token.EOF || p.tok == token.COMMENT
}

// hints adds what to do to the scanner's messages.
var hints = []struct{ in, hint string }{
	{"illegal character", `a line is [section], [section "name"] or key = value, and a key has letters, digits and dashes`},
	{"escape sequence", `inside quotes write \\ for a backslash and \" for a quote`},
	{"unquoted '\\'", `put the value in double quotes and write \\ for a backslash`},
	{"string not terminated", `close the quotes on the same line; write \" for a quote inside`},
}

func reason(line int, msg string) *complaint {
	for _, h := range hints {
		if strings.Contains(msg, h.in) {
			msg += "; " + h.hint
			break
		}
	}
	return &complaint{line, msg}
}

// unquote resolves quotes and escapes of a literal that the scanner accepted.
func unquote(lit string) string {
	var b strings.Builder
	escaped := false
	for _, r := range lit {
		switch {
		case escaped:
			escaped = false
			switch r {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\n': // a line continued outside of quotes
			default:
				b.WriteRune(r)
			}
		case r == '\\':
			escaped = true
		case r != '"':
			b.WriteRune(r)
		}
	}
	return b.String()
}
