package output

import (
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	all := []Finding{
		{Severity: Warning, Check: "nodes", Object: "node/a\x1b[2J", Message: "one\ntwo", Next: strings.Repeat("x", 5000)},
		{Severity: Error, Check: "cloud", Message: "gone", Next: "mend it"},
		{Severity: Unchecked, Message: "no answer", Next: "ask again"},
	}
	var b strings.Builder
	if err := WriteFindings(&b, all); err != nil {
		t.Fatal(err)
	}
	want := "\nWARNING: nodes, node/a [2J\n  one two\n  → " + strings.Repeat("x", 500) + "…\n\nERROR: cloud\n  gone\n  → mend it\n\nUNCHECKED: no answer\n  → ask again\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	for code, list := range map[Exit][]Finding{0: all[:1], 1: all, 2: {all[0], all[2]}} {
		err := Verdict(list)
		if got, _ := err.(Exit); got != code || (err == nil) != (code == 0) { //nolint:errorlint // it is never wrapped
			t.Errorf("%v, want exit code %d", err, code)
		}
	}
	if Error.Rank() >= Unchecked.Rank() || Unchecked.Rank() >= Warning.Rank() {
		t.Error("the worst is not first")
	}
}
