package output

import (
	"strings"
	"testing"
)

func TestLineIsOneOfPrintableText(t *testing.T) {
	if got := Line("a\nb\x1b[31mc\u202ed"); got != "a b [31mc d" {
		t.Errorf("%q", got)
	}
	if got := Line(strings.Repeat("x", 1<<20)); len(got) > mostText+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestFormats(t *testing.T) {
	for format, ok := range map[string]bool{"table": true, "json": true, "yaml": false, "": false} {
		if err := Validate(format); (err == nil) != ok {
			t.Errorf("%q: %v", format, err)
		}
	}
}
