package output

import (
	"encoding/json"
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

func TestEncodeEscapesWhatIsNotPrintable(t *testing.T) {
	const hostile = "a\x1b[31m\u009b31m\u202eb\x7f\U000e0041\n<é>\xff"
	var b strings.Builder
	if err := Encode(&b, []string{hostile}); err != nil {
		t.Fatal(err)
	}
	if want := "[\n  \"a\\u001b[31m\\u009b31m\\u202eb\\u007f\\udb40\\udc41\\n<é>"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
	var back []string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back[0] != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("%q, %v", back, err)
	}
	if err := Encode(&b, func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
}
