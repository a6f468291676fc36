package deletionguard

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/golden"
)

// axes are the columns of Evaluate's table, each with all its values.
var axes = [][]string{
	{"ID not found", "name not found", "name found"},
	{"none", "unidentified", "names", "ID resolved"},
	{"none", "seen", "lost"},
	{"none", "some", "100 %"},
	{"within", "unreadable", "missing"},
	{"no", "yes"},
	{"nobody", "elsewhere", "here"},
	{"one", "several"},
}

// fits reports whether a cell of the table covers the value.
func fits(cell, value string) bool {
	switch cell {
	case "-", value:
		return true
	case "not found":
		return value != "name found"
	case "by name":
		return value != "ID not found"
	case "weak":
		return value != "ID resolved"
	}
	return false
}

// row is one of the table: the cells and the reason.
type row struct {
	text   string
	cells  []string
	reason Reason
}

func (r row) fits(values []string) bool {
	for k, v := range values {
		if !fits(r.cells[k], v) {
			return false
		}
	}
	return true
}

// table reads the table of Evaluate's comment.
func table(t *testing.T) []row {
	t.Helper()
	source, err := os.ReadFile("evaluate.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(source)) {
		text, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		cells := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(text), -1)
		if len(cells) != len(axes)+1 {
			t.Fatalf("%q has %d cells, want %d", text, len(cells), len(axes)+1)
		}
		rows = append(rows, row{strings.TrimSpace(text), cells[:len(axes)], Reason(cells[len(axes)])})
	}
	if len(rows) < 2 {
		t.Fatal("Evaluate's comment has no table")
	}
	for _, r := range rows[1:] { // below the heads
		for k, cell := range r.cells {
			if !slices.ContainsFunc(axes[k], func(value string) bool { return fits(cell, value) }) {
				t.Errorf("%q: %q fits nothing", r.text, cell)
			}
		}
	}
	return rows[1:]
}

// situations are all combinations of the axes' values.
func situations() [][]string {
	all := [][]string{nil}
	for _, axis := range axes {
		var longer [][]string
		for _, s := range all {
			for _, value := range axis {
				longer = append(longer, append(slices.Clone(s), value))
			}
		}
		all = longer
	}
	return all
}

// inputOf is an Input in that situation; false where there can be none.
func inputOf(s []string) (Input, bool) {
	claim, evidence, existing, limits, loss, settled, seen, missing := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	switch {
	case limits == "100 %" && loss != "within", // never more than all
		evidence == "unidentified" && seen == "elsewhere", // than what?
		existing == "seen" && seen == "nobody":
		return Input{}, false
	}
	in := Input{Claim: Claim(slices.Index(axes[0], claim)), Evidence: Evidence(slices.Index(axes[1], evidence)), Scope: "project p at endpoint e"}
	in.Counts = map[string]Counts{"within": {Missing: 2, Unreadable: 1}, "unreadable": {Missing: 2, Unreadable: 9}, "missing": {Missing: 10, Unreadable: 1}}[loss]
	if in.Counts.MissingHere = 1; missing == "several" {
		in.Counts.MissingHere = 2
	}
	if seen != "nobody" {
		in.Counts.Seen = 9
	}
	if seen == "here" {
		in.Counts.SeenHere = 9
	}
	switch existing {
	case "seen":
		in.Counts.ExistingSeen, in.Counts.ExistingLost = 1, 1
	case "lost":
		in.Counts.ExistingLost = 2
	}
	switch limits {
	case "some":
		in.Limits = &Limits{Count: 3, Percent: 45, Settle: 10 * time.Minute}
	case "100 %":
		in.Limits = &Limits{Count: 3, Percent: 100, Settle: 10 * time.Minute}
	}
	if in.Lasted = 10*time.Minute - 1; settled == "yes" {
		in.Lasted = 10 * time.Minute
	}
	return in, true
}

// In every situation that there can be, Evaluate decides what its table says, and the
// operator's word changes only what is held.
func TestEvaluateDecidesAsItsTableSaysInEverySituation(t *testing.T) {
	rows := table(t)
	var transcript strings.Builder
	done := map[string]bool{}
	for _, s := range situations() {
		in, possible := inputOf(s)
		if !possible {
			continue
		}
		k := slices.IndexFunc(rows, func(r row) bool { return r.fits(s) })
		if k < 0 {
			t.Fatalf("%q: no row of the table fits", s)
		}
		got := Evaluate(in)
		if got.Reason != rows[k].reason || got.Allows() != (got.Reason == Allowed) || (got.Message == "") != got.Allows() {
			t.Errorf("%q: %+v, want %s", s, got, rows[k].reason)
		}
		in.Operator = Operator{Problem: "the operator's word is no time"}
		asked := Evaluate(in)
		if want := got.Message + "; the operator's word is no time"; !got.Allows() && asked.Message != want || asked.Reason != got.Reason {
			t.Errorf("%q with a word that cannot be read: %+v", s, asked)
		}
		in.Operator = Operator{Confirmed: true}
		confirmed := Evaluate(in)
		if want := map[bool]Reason{true: Allowed, false: OperatorConfirmed}[got.Allows()]; confirmed.Reason != want || confirmed.Message != got.Message || !confirmed.Allows() {
			t.Errorf("%q with an operator's word: %+v, want %s", s, confirmed, want)
		}
		if !done[rows[k].text] {
			done[rows[k].text] = true
			fmt.Fprintf(&transcript, "%s\n%+v\n= %s\n= %s, an operator confirms\n\n", strings.Join(s, ", "), in.Counts, strings.TrimSuffix(fmt.Sprintf("%s: %s", got.Reason, got.Message), ": "), confirmed.Reason)
		}
	}
	for _, r := range rows {
		if !done[r.text] {
			t.Errorf("row %q decides nothing", r.text)
		}
	}
	golden.Compare(t, "testdata/verdicts.txt", transcript.String())
}

// Settle 0 is no time after which a loss is believed.
func TestLossIsNeverBelievedWhenThereIsNoSettleTime(t *testing.T) {
	in := Input{Evidence: IDResolved, Counts: Counts{Seen: 10, SeenHere: 10, Missing: 90}, Limits: &Limits{Count: 3, Percent: 45}, Lasted: 1000 * time.Hour}
	if got := Evaluate(in); got.Reason != TooManyMissing {
		t.Errorf("%+v", got)
	}
}
