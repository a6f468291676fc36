package output

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows whose cells stand below one another.
type Table struct{ out *tabwriter.Writer }

// NewTable writes to w when it is flushed.
func NewTable(w io.Writer) Table { return Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

// Row adds a row of lines, with a dash for what is empty. Spaces before a text stay.
func (t Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		text := strings.TrimLeft(c, " ")
		row[i] = c[:len(c)-len(text)] + cmp.Or(Line(text), "-")
	}
	_, _ = fmt.Fprintln(t.out, strings.Join(row, "\t")) // Flush has the error
}

// Flush writes the rows. Those that follow have columns of their own.
func (t Table) Flush() error { return t.out.Flush() }
