package main

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// counts are what a reference counts.
type counts struct {
	manager                                string
	groups, scenarios, same, states, backs int
	differ                                 []int // scenarios, by difference
}

// patterns are those of the scenarios that differences are of.
func patterns(list []compare.Intended) (out []*regexp.Regexp, _ error) {
	for _, d := range list {
		p, err := regexp.Compile("^(?:" + d.Scenarios + ")$")
		if err != nil {
			return nil, fmt.Errorf("difference %q: %w", d.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// scenario counts one.
func (c *counts) scenario(name string, of []*regexp.Regexp) {
	same := true
	for i, p := range of {
		if p.MatchString(name) {
			c.differ[i]++
			same = false
		}
	}
	c.scenarios++
	if same {
		c.same++
	}
}

// page is what a reference says beside what is counted. Its texts have verbs for that.
type page struct {
	head, over, back string
	differences      []compare.Intended
	takeover, taking []compare.Exception
}

// table is the reference.
func (p *page) table(c *counts) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, p.head, c.manager, c.scenarios, c.groups, c.same, c.scenarios)
	for i, d := range p.differences {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.Name, d.Theirs, d.Here, d.Why, orAll(c.differ[i]))
	}
	fmt.Fprintf(&b, p.over, c.states)
	for _, x := range p.takeover {
		fmt.Fprintf(&b, "- %s %s\n", x.What, x.Why)
	}
	fmt.Fprintf(&b, p.back, c.backs)
	for _, x := range p.taking {
		fmt.Fprintf(&b, "- %s %s\n", x.What, x.Why)
	}
	return b.Bytes()
}

// orAll says what no scenario counts: what is about all of a group.
func orAll(n int) string {
	if n == 0 {
		return "what they share"
	}
	return fmt.Sprint(n)
}
