package compare

import (
	"fmt"
	"regexp"
)

// Difference is one thing that differs between what two managers left of a scenario.
type Difference struct {
	Scenario, Phase string
	// Path is where, for example node.web-1.example.org.addresses.
	Path string
	// Theirs and Ours are the values as JSON, "" for none.
	Theirs, Ours string
	// Failed says that theirs has failed at the scenario by then.
	Failed bool
}

func (d Difference) String() string {
	return fmt.Sprintf("%s, %s: %s: theirs has %s, ours has %s", d.Scenario, d.Phase, d.Path, OrNone(d.Theirs), OrNone(d.Ours))
}

// Intended is a difference that is meant to be.
type Intended struct {
	Name string
	// Theirs, Here and Why are for people.
	Theirs, Here, Why string
	// Scenarios, Phases and Path (regular expressions for the whole) are where; empty is everywhere.
	Scenarios, Phases, Path string
	// Failed is only where theirs has failed at the scenario by then, Gone only where ours has nothing, New only where theirs has,
	// Both only where both have something.
	Failed, Gone, New, Both bool
	// Chance is what differs only where it so happens.
	Chance bool
}

// Sieve tells differences that are meant to be from others.
type Sieve struct {
	list                     []Intended
	scenarios, phases, paths []*regexp.Regexp
	hits                     []int
}

// NewSieve makes one of a list.
func NewSieve(list []Intended) (*Sieve, error) {
	s := &Sieve{list: list, hits: make([]int, len(list))}
	for _, x := range list {
		for text, into := range map[*string]*[]*regexp.Regexp{&x.Scenarios: &s.scenarios, &x.Phases: &s.phases, &x.Path: &s.paths} {
			if *text == "" {
				*text = ".*"
			}
			re, err := regexp.Compile("^(?:" + *text + ")$")
			if err != nil {
				return nil, fmt.Errorf("difference %q: %w", x.Name, err)
			}
			*into = append(*into, re)
		}
	}
	return s, nil
}

// Rest are those that are not meant to be. With count, those that are count as seen.
func (s *Sieve) Rest(all []Difference, count bool) (rest []Difference) {
	for _, d := range all {
		found := false
		for i := range s.list {
			if s.is(i, &d) {
				found = true
				if count {
					s.hits[i]++
				}
			}
		}
		if !found {
			rest = append(rest, d)
		}
	}
	return rest
}

// is reports whether a difference is the one with the index.
func (s *Sieve) is(i int, d *Difference) bool {
	x := &s.list[i]
	return s.scenarios[i].MatchString(d.Scenario) && s.phases[i].MatchString(d.Phase) && s.paths[i].MatchString(d.Path) &&
		(d.Failed || !x.Failed) && (d.Ours == "" || !x.Gone) && (d.Theirs == "" || !x.New) && (d.Ours != "" && d.Theirs != "" || !x.Both)
}

// Idle are the names of those of which nothing was counted, but for what is chance.
func (s *Sieve) Idle() (out []string) {
	for i, n := range s.hits {
		if n == 0 && !s.list[i].Chance {
			out = append(out, s.list[i].Name)
		}
	}
	return out
}
