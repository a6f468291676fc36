package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// mostFindings bounds what a check tells.
const mostFindings = 100

// report is what was found.
type report struct {
	Checks   []checked        `json:"checks"`
	Findings []output.Finding `json:"findings"`
}

// checked is a check that was made.
type checked struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Findings is how many there are, also where not all of them are told.
	Findings int `json:"found"`
	// Unseen is what it could not look at, though nothing has failed.
	Unseen []string `json:"unseen,omitempty"`
	// Absent says that there is nothing of what it looks at, which is no fault.
	Absent bool `json:"absent,omitempty"`
}

// add notes what a check of p has found, and what it could not look at.
func (r *report) add(c check, p *patient, found []output.Finding) {
	made := checked{Name: c.name, About: c.about, Findings: len(found), Absent: p.absent}
	for _, s := range p.unseen[:min(len(p.unseen), mostFindings)] {
		made.Unseen = append(made.Unseen, output.Line(s))
	}
	r.Checks = append(r.Checks, made)
	slices.SortStableFunc(found, func(a, b output.Finding) int { return cmp.Compare(a.Severity.Rank(), b.Severity.Rank()) })
	if more := len(found) - mostFindings; more > 0 {
		last := output.Finding{Severity: found[mostFindings].Severity, Message: fmt.Sprintf("and %d more", more), Next: "mend those that are told, and call doctor again"}
		found = append(found[:mostFindings:mostFindings], last)
	}
	for _, f := range found {
		f.Check = c.name
		f.Object, f.Message, f.Next = output.Line(f.Object), output.Line(f.Message), output.Line(f.Next)
		r.Findings = append(r.Findings, f)
	}
}

func (r *report) write(w io.Writer, format string) error {
	if format == output.JSON {
		if r.Findings == nil {
			r.Findings = []output.Finding{} // not null
		}
		return output.Encode(w, r)
	}
	t := output.NewTable(w)
	for _, c := range r.Checks {
		state := "ok"
		is := func(f output.Finding) bool { return f.Check == c.Name && f.Severity != output.Unchecked }
		switch {
		case slices.ContainsFunc(r.Findings, is):
			state = fmt.Sprintf("%d found", c.Findings)
		case c.Findings > 0:
			state = string(output.Unchecked)
		case c.Absent:
			state = "none"
		}
		t.Row(c.Name, state, c.About)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range r.Checks {
		for _, s := range c.Unseen {
			if _, err := fmt.Fprintf(w, "\n%s did not look at %s\n", c.Name, s); err != nil {
				return err
			}
		}
	}
	return output.WriteFindings(w, together(r.Findings))
}

// together has checks that all lack the same told of once.
func together(all []output.Finding) (out []output.Finding) {
	for _, f := range all {
		i := slices.IndexFunc(out, func(o output.Finding) bool {
			return f.Severity == output.Unchecked && f.Object == o.Object && f.Message == o.Message && f.Next == o.Next && f.Check != o.Check
		})
		if i < 0 {
			out = append(out, f)
			continue
		}
		out[i].Check += ", " + f.Check
	}
	return out
}
