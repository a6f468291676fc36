package output

import (
	"errors"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b)
	cells := []string{"  name", "a\x1b[2J\tb"}
	table.Row(cells...)
	table.Row("", "  ", "last")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	table.Row("x", "y")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "  name  a [2J b\n-         -  last\nx  y\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if cells[0] != "  name" || cells[1] != "a\x1b[2J\tb" {
		t.Errorf("the caller's cells are %q", cells)
	}
	full := errors.New("full")
	table = NewTable(writer(func([]byte) (int, error) { return 0, full }))
	table.Row("a")
	if err := table.Flush(); !errors.Is(err, full) {
		t.Error(err)
	}
}

// writer implements io.Writer.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
