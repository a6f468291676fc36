package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	// Error is something that does not work.
	Error Severity = "error"
	// Unchecked is a question that could not be answered.
	Unchecked Severity = "unchecked"
	// Warning is something that will not work one day, or works otherwise than somebody may think.
	Warning Severity = "warning"
)

// Rank orders severities, the worst first.
func (s Severity) Rank() int { return slices.Index([]Severity{Error, Unchecked, Warning}, s) }

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check is the name of the check that has found it, empty where there is but one.
	Check string `json:"check,omitempty"`
	// Object is what it is about, as kubectl names it, or a file; empty where there is but one.
	Object string `json:"object,omitempty"`
	// Message says what is wrong, and why.
	Message string `json:"message"`
	// Next is what to do.
	Next string `json:"next"`
}

// WriteFindings writes findings for people: with each a line that says where, one that says what, and one that says what to do.
func WriteFindings(w io.Writer, all []Finding) error {
	for _, f := range all {
		where := strings.ToUpper(string(f.Severity)) + ":"
		if about := strings.Trim(Line(f.Check)+", "+Line(f.Object), ", "); about != "" {
			where += " " + about + "\n "
		}
		if _, err := fmt.Fprintf(w, "\n%s %s\n  → %s\n", where, Line(f.Message), Line(f.Next)); err != nil {
			return err
		}
	}
	return nil
}

// Verdict is the exit code of a command that has found these: 1 where something is wrong, 2 where something could not be answered, and no
// error otherwise.
func Verdict(all []Finding) error {
	has := func(s Severity) bool {
		return slices.ContainsFunc(all, func(f Finding) bool { return f.Severity == s })
	}
	switch {
	case has(Error):
		return Exit(1)
	case has(Unchecked):
		return Exit(2)
	}
	return nil
}
